// How `unaligned` tiles a problem, and how a block keeps its part of the input in shared memory.
//
// What may be changed safely: the constants below, except VECTORS_PER_SECTOR, which is the
// hardware's; unaligned_tile.cpp checks that the blocks fit in shared memory. A tile may have any
// number of rows that is a multiple of VECTORS_PER_SECTOR * W, and any number of columns up to
// max_tile_cols.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/bounded_copy.h"
#include "device/fast_divmod.h"
#include "transpose/transpose.h"

namespace smem::transpose {

/// Threads of a block that reads or writes one contiguous segment (flat_in or flat_out).
constexpr int FLAT_THREADS = 256;
/// Threads of a block that has a tile, and of all such blocks of an SM. A matrix that is large
/// enough takes blocks of twice the threads with a tile of twice the size, 61 KiB, because larger
/// tiles read fewer rows twice.
constexpr int TILE_THREADS = 256, LARGE_TILE_THREADS = 512, THREADS_PER_SM = 1024;
/// The widest tile. Its rows, which may begin anywhere, are in 16 vectors, or in 32.
constexpr int max_tile_cols(size_t element_bytes, int threads) {
  const bool wide = element_bytes > 2 && threads == LARGE_TILE_THREADS;
  return static_cast<int>((wide ? 496 : 240) / element_bytes);
}
/// The rows of a stage: one stage of a tile is transposed while the copies of the next are in
/// flight. Large tiles of 1-byte and 2-byte elements have two stages, all others one.
constexpr int STAGE_ROWS = 128;
constexpr int large_tile_rows(size_t element_bytes) { return element_bytes <= 2 ? 256 : 128; }
/// The part of an output column that a tile writes begins and ends at sectors of 32 bytes.
constexpr int VECTORS_PER_SECTOR = 2;

/// The work of a block, and the layout of its input in shared memory: row after row, each padded to
/// whole vectors, or as one contiguous segment. W = 16 / element_bytes.
struct UnalignedTile {
  bool flat_in;              ///< the rows of `in` are short and contiguous: read as one segment
  bool flat_out;             ///< the rows of `out` are short and contiguous: written as one segment
  int log2_rows, log2_cols;  ///< the tile if flat_in or flat_out
  int rows, cols, threads;   ///< the tile and the block otherwise; rows = 0 if flat
  int64_t tiles_m, tiles_n;  ///< the number of these tiles
  int matrices_per_block;    ///< more than one only if flat_in and flat_out
  int halo_vectors;          ///< the most vectors by which an output column begins above the tile
  bool rotate_lanes;         ///< flat_in: lanes read the elements of a vector in different orders
  int smem_rows;             ///< rows in shared memory
  FastDivmod pitch_vectors;  ///< vectors from one of these rows to the next
  FastDivmod row_groups;     ///< groups of W rows; shared memory has the rows ordered by row % W
  FastDivmod rows_divmod, matrix_divmod;  ///< flat_out: by problem.rows, and by rows * cols
  /// flat_out and not flat_in: how many vectors with the same row indices a thread writes, and in
  /// how many groups the threads share such vectors (unaligned_flat.h).
  int vectors_per_thread, thread_groups;

  int64_t blocks(const Problem& problem) const;
  size_t shared_bytes() const { return size_t{16} * smem_rows * pitch_vectors.by; }
};

UnalignedTile unaligned_tile(const Problem& problem, const Device& device);

/// The bytes that may be read: from the first element of `in` to the last one.
Span readable_span(const Problem& problem);

}  // namespace smem::transpose
