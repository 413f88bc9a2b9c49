// How `unaligned` cuts a problem: what of the input a block keeps in shared memory, and how.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/fast_divmod.h"
#include "device/bounded_copy.h"
#include "transpose/transpose.h"

namespace smem::transpose {

/// Of a block that reads or writes one flat run.
constexpr int GATHER_THREADS = 256;
/// Threads of a block that has a tile: 4 such blocks fit on an SM. Where a matrix is
/// large enough, twice as many have a tile twice as large, of 61 KiB, and read less twice.
constexpr int TILE_THREADS = 256, LARGE_TILE_THREADS = 512, TILES_THREADS = 1024;
/// The most columns of a tile. Rows that begin anywhere lie in 16 vectors then, or in 32.
constexpr int tile_cols(size_t element_bytes, int threads) {
  const bool wide = element_bytes > 2 && threads == LARGE_TILE_THREADS;
  return static_cast<int>((wide ? 496 : 240) / element_bytes);
}
/// The rows that are gathered at once, while those below them may still be on their way: all of a
/// tile's, but half of a large one's where elements are small.
constexpr int CHUNK_ROWS = 128;
constexpr int large_tile_rows(size_t element_bytes) { return element_bytes <= 2 ? 256 : 128; }
/// A tile's part of a column begins and ends at sectors of 32 bytes, so many vectors.
constexpr int SECTOR_VECTORS = 2;

/// What a block of `unaligned` turns. Its part of the input lies in shared memory as it lies in
/// global memory, cut at multiples of 16 bytes: row after row, each padded to whole vectors, or as
/// one flat run.
struct GatherTile {
  bool flat_in;              ///< the input's rows follow each other without gaps and are short
  bool flat_out;             ///< so do the rows of the output
  int log2_rows, log2_cols;  ///< where something is flat
  int rows, cols, threads;   ///< where nothing is
  int64_t down, across;      ///< so many of these tiles below each other and side by side
  int members;               ///< matrices of the batch a block; more than one where all is flat
  int before;                ///< vectors by which a column's part may begin before the tile
  bool rotate;               ///< flat_in: lanes must take their elements in different order
  int slots;                 ///< rows in shared memory
  FastDivmod pitch;             ///< vectors from one to the next
  FastDivmod stacks;            ///< rows that lie W apart follow each other, so many of them
  FastDivmod turned_rows, turned_elements;  ///< flat_out: of a matrix
  /// Only flat_out: vectors a column's number of vectors apart that a thread takes, and how many
  /// threads share those.
  int repeats, parts;

  int64_t blocks(const Problem& problem) const;
  size_t shared_bytes() const { return size_t{16} * slots * pitch.by; }
};

GatherTile gather_tile(const Problem& problem, const Device& device);

Span readable(const Problem& problem);

}  // namespace smem::transpose
