// What a Hopper kernel is told.
#pragma once

#include <cuda.h>

#include "gemm/sm90/epilogue_params.h"
#include "gemm/sm90/tile_scheduler.h"

namespace smem::gemm::sm90 {
inline namespace SMEM_BUILD {

/// What of an operand a tile needs: rows of A, or of B's columns.
struct TileRows {
  int rows;       ///< fewer than the tile has where the operand has, and whole pieces of 16 bytes
  int last_rows;  ///< of the last tile, where that has fewer
  int end;        ///< the operand's
};

template <typename T>
struct Arguments {
  /// Along K: for whole tiles, and for a last one that has fewer rows. Else for whole panels, and
  /// for a last one that needs fewer rows.
  CUtensorMap a[2], b[2];
  TileRows a_rows, b_rows;
  Schedule schedule;
  int tile_cols;       ///< a block's step along N, at most its tile's width
  int chunk_steps;     ///< along K, after which a new sum begins
  int log_box_pieces;  ///< of 16 bytes in a row of out's boxes
  Output output;
  bool a_batched, b_batched;
  bool turned;           ///< rows of A are columns of out, see mainloop_tf32_rs.h
  Epilogue<T> epilogue;  ///< of the first member of the batch
  MemberStrides strides;
  float* partials;  ///< batch x chunks x M x partial_pitch
  int64_t partial_pitch;
  CUtensorMap out, pre;  ///< of boxes
};

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::sm90
