// How the production kernels cut a problem: the numbers to tune, and the shape of a tile.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transpose/transpose.h"

namespace smem::transpose {

constexpr int log2_of(int power) { return power == 1 ? 0 : 1 + log2_of(power / 2); }

/// The sub-blocks that a thread of `vectorized` has in its registers, each of 16 bytes squared (W x
/// W elements, W runs of 16 bytes): so many loads are under way before the barrier.
constexpr int blocks_a_thread(size_t element_bytes) {
  return element_bytes == 16 ? 4 : element_bytes == 8 ? 2 : 1;
}
/// Threads of a block: at most these, so that a tile is 16 KiB, 32 for 2 bytes, 64 for bytes. Of
/// bytes only large matrices take so many, others half.
constexpr int MAX_THREADS = 256;
/// And at least these, for tiles of 8 KiB where elements have 1 or 2 bytes, of 4 KiB where more.
constexpr int min_threads(size_t element_bytes) { return element_bytes == 1 ? 32 : 64; }

/// Matrices of middling size are turned in registers alone (`register_transpose.h`). Threads of a block;
/// squares below each other and side by side that a warp has.
constexpr int squares_threads(size_t element_bytes) { return element_bytes == 1 ? 64 : 128; }
constexpr int LOG2_SQUARES_DOWN = 2, LOG2_SQUARES_ACROSS = 3;

/// `strided_copy`: threads of a block, and elements that each has under way.
constexpr int RUNS_THREADS = 256;
constexpr int RUNS_A_THREAD = 4;

/// A tile of `vectorized` in sub-blocks, as powers of two.
struct TileShape {
  int log2_down, log2_across;

  int log2_blocks() const { return log2_down + log2_across; }
  int threads(size_t element_bytes) const {
    return (1 << log2_blocks()) / blocks_a_thread(element_bytes);
  }
  int rows(size_t element_bytes) const {
    return static_cast<int>((16 / element_bytes) << log2_down);
  }
  int cols(size_t element_bytes) const {
    return static_cast<int>((16 / element_bytes) << log2_across);
  }
  size_t bytes(size_t element_bytes) const { return (16 / element_bytes * 16) << log2_blocks(); }
};

/// The tile that wastes least: a square, but narrow for a narrow matrix, whose short side it then
/// covers. Smaller ones where else some SMs had nothing to do.
TileShape tile_shape(const Problem& problem, const Device& device);

/// Whether `vectorized` takes squares, and so many rows and columns of them a block.
bool takes_squares(const Problem& problem);
constexpr int squares_rows(size_t element_bytes) {
  return static_cast<int>(16 / element_bytes) * squares_threads(element_bytes) / 32
         << LOG2_SQUARES_DOWN;
}
constexpr int squares_cols(size_t element_bytes) {
  return static_cast<int>(16 / element_bytes) << LOG2_SQUARES_ACROSS;
}

/// The elements of a run, as a power of two, that `strided_copy` gives to a block.
int log2_run(const Problem& problem);

/// What lies along a line of a matrix: vectors of 16 bytes at multiples of 16 bytes, elements side
/// by side, or elements apart (or hardly any).
enum Access : int { ALIGNED, SHIFTED, STRIDED };
Access read_access(const Problem& problem);
Access write_access(const Problem& problem);

}  // namespace smem::transpose
