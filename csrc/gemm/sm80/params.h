// The parameters of an mma kernel.
#pragma once

#include "gemm/gemm.h"
#include "gemm/tile_scheduler.h"

namespace smem::gemm::sm80 {

struct MmaParams {
  /// With at most one batch dimension. Rows of the operands, or columns if they are MN-major, are
  /// aligned vectors of 16 bytes.
  Problem problem;
  TileScheduler scheduler;
  float* partials;  ///< batch x split-K slices x M x partial_pitch; null: the kernel writes out
  int64_t partial_pitch;
};

}  // namespace smem::gemm::sm80
