// What a Hopper kernel is told.
#pragma once

#include <cuda.h>

#include "gemm/hopper/epilogue.h"
#include "gemm/hopper/schedule.h"

namespace smem::gemm::hopper {
inline namespace SMEM_BUILD {

template <typename T>
struct Arguments {
  CUtensorMap a[2], b[2];  ///< as Loader has them
  Schedule schedule;
  int tile_rows;       ///< rows of A that a tile needs: fewer than it has where M is
  int tile_cols;       ///< a block's step along N, at most its tile's width
  int chunk_steps;     ///< along K, after which a new sum begins
  int log_box_pieces;  ///< of 16 bytes in a row of out's boxes
  Output output;
  bool a_batched, b_batched;
  bool turned;           ///< rows of A are columns of out, see floats.h
  Epilogue<T> epilogue;  ///< of the first member of the batch
  MemberStrides strides;
  float* partials;  ///< batch x chunks x M x partial_pitch
  int64_t partial_pitch;
  CUtensorMap out, pre;  ///< of boxes
};

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::hopper
