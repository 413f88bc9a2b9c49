// How `gathered` cuts a problem: what of the input a block keeps in shared memory, and how.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/divisor.h"
#include "device/readable.h"
#include "transpose/transpose.h"

namespace smem::transpose {

/// So many that a tile of 32 KiB is one share for each (`gathered.cu`): 8 vectors. With half as
/// many a multiprocessor has 16 warps and takes 5 to 11% longer. Bytes under way take no threads:
/// they are cp.async's.
constexpr int GATHER_THREADS = 256;
/// A tile's part of a column begins and ends at sectors of 32 bytes, so many vectors.
constexpr int SECTOR_VECTORS = 2;

/// What a block of `gathered` turns. Its part of the input lies in shared memory as it lies in
/// global memory, cut at multiples of 16 bytes: row after row, each padded to whole vectors, or as
/// one flat run.
struct GatherTile {
  bool flat_in;   ///< the input's rows follow each other without gaps and are short
  bool flat_out;  ///< so do the rows of the output
  int log2_rows, log2_cols;
  int members;     ///< matrices of the batch a block; more than one where all is flat
  int before;      ///< vectors by which a column's part may begin before the tile
  int rotate;      ///< flat_in: 1 where lanes must take their elements in different order
  int slots;       ///< rows in shared memory
  Divisor pitch;   ///< vectors from one to the next
  Divisor stacks;  ///< rows that lie W apart follow each other, so many of them
  Divisor turned_rows, turned_elements;  ///< flat_out: of a matrix

  int64_t blocks(const Problem& problem) const;
  size_t shared_bytes() const { return size_t{16} * slots * pitch.by; }
};

GatherTile gather_tile(const Problem& problem, const Device& device);

Span readable(const Problem& problem);

}  // namespace smem::transpose
