// How `vectorized` and `strided_copy` tile a problem: the numbers to tune, and the shape of a tile.
//
// The levels of a tile of `vectorized`, from the thread up (M counts rows of `in`, N its columns):
//
//   register tile   W x W elements in the registers of one thread, W = 16 / element_bytes
//   block tile      2^log2_m x 2^log2_n register tiles, staged in shared memory
//
// What may be changed safely: all numbers of this file. Tiles are powers of two of register tiles,
// and a block has at most VECTORIZED_MAX_THREADS threads; every choice writes the same bits.
#pragma once

#include <cstddef>

#include "transpose/transpose.h"

namespace smem::transpose {

constexpr int log2_of(int power) { return power == 1 ? 0 : 1 + log2_of(power / 2); }

/// The tuned numbers, one row per element size.
struct ElementConfig {
  int element_bytes;
  /// `vectorized`: register tiles per thread. All their loads (64 to 256 bytes) are issued before
  /// the barrier.
  int register_tiles_per_thread;
  /// `vectorized`: threads of the smallest block. Its tile is 8 KiB for 1 and 2 bytes, else 4 KiB.
  int min_threads;
  /// `vectorized` without shared memory (register_transpose.h): threads of a block.
  int register_transpose_threads;
};
constexpr ElementConfig ELEMENT_CONFIGS[] = {
    {.element_bytes = 1,
     .register_tiles_per_thread = 1,
     .min_threads = 32,
     .register_transpose_threads = 64},
    {.element_bytes = 2,
     .register_tiles_per_thread = 1,
     .min_threads = 64,
     .register_transpose_threads = 128},
    {.element_bytes = 4,
     .register_tiles_per_thread = 1,
     .min_threads = 64,
     .register_transpose_threads = 128},
    {.element_bytes = 8,
     .register_tiles_per_thread = 2,
     .min_threads = 64,
     .register_transpose_threads = 128},
    {.element_bytes = 16,
     .register_tiles_per_thread = 4,
     .min_threads = 64,
     .register_transpose_threads = 128},
};
constexpr ElementConfig element_config(size_t element_bytes) {
  return ELEMENT_CONFIGS[log2_of(static_cast<int>(element_bytes))];
}

/// The largest block of `vectorized`. Its tile is 16 KiB, 32 KiB for 2 bytes, 64 KiB for 1 byte.
/// Only large matrices of 1-byte elements take the full size; others take at most half of it.
constexpr int VECTORIZED_MAX_THREADS = 256;

constexpr int register_tiles_per_thread(size_t element_bytes) {
  return element_config(element_bytes).register_tiles_per_thread;
}

/// The block tile of `vectorized`, in register tiles.
struct VectorizedTile {
  int log2_m, log2_n;

  int log2_register_tiles() const { return log2_m + log2_n; }
  int threads(size_t element_bytes) const {
    return (1 << log2_register_tiles()) / register_tiles_per_thread(element_bytes);
  }
  int rows(size_t element_bytes) const { return static_cast<int>((16 / element_bytes) << log2_m); }
  int cols(size_t element_bytes) const { return static_cast<int>((16 / element_bytes) << log2_n); }
  size_t bytes(size_t element_bytes) const {
    return (16 / element_bytes * 16) << log2_register_tiles();
  }
};

/// The tile with the least memory traffic: a square for most matrices, and a narrow tile that
/// covers the short side of a narrow matrix. Smaller tiles are chosen where some SMs would have no
/// work.
VectorizedTile vectorized_tile(const Problem& problem, const Device& device);

/// Whether `vectorized` transposes in registers alone (register_transpose.h).
bool use_register_transpose(const Problem& problem);

/// A warp of that kernel has 4 register tiles along M and 8 along N, which is 128 bytes of each
/// row. The warps of a block follow each other along M.
constexpr int LOG2_WARP_REGISTER_TILES_M = 2, LOG2_WARP_REGISTER_TILES_N = 3;
constexpr int register_transpose_tile_rows(size_t element_bytes) {
  return static_cast<int>(16 / element_bytes) *
             element_config(element_bytes).register_transpose_threads / 32
         << LOG2_WARP_REGISTER_TILES_M;
}
constexpr int register_transpose_tile_cols(size_t element_bytes) {
  return static_cast<int>(16 / element_bytes) << LOG2_WARP_REGISTER_TILES_N;
}

/// `strided_copy`: threads of a block, and elements that each thread loads before it stores.
constexpr int STRIDED_COPY_THREADS = 256;
constexpr int strided_copy_elements(size_t element_bytes) { return element_bytes < 8 ? 8 : 4; }

/// How the elements of a row (of `in` or of `out`) can be accessed: as 16-byte vectors at multiples
/// of 16 bytes; as contiguous elements that begin anywhere; or as elements with a stride (also if a
/// row is too short for vectors).
enum AccessPattern : int { ALIGNED, UNALIGNED, STRIDED };
AccessPattern read_access(const Problem& problem);
AccessPattern write_access(const Problem& problem);

}  // namespace smem::transpose
