// The tensor maps by which TMA reads hi and lo of a split operand.
#pragma once

#include "gemm/fp16x3/split.h"
#include "gemm/sm90/tensor_map.h"

namespace smem::gemm::fp16x3 {

/// Boxes of one k block, hi and lo, by `box_rows` rows of a k slice.
inline CUtensorMap hi_lo_tensor_map(const split::SplitOperand& operand, int box_rows) {
  return sm90::make_tensor_map(
      {DType::f16, operand.hi_lo, operand.row_pitch(), operand.mn, operand.total_k_slices(),
       operand.row_pitch(), operand.mn * operand.row_pitch()},
      2 * split::K_BLOCK, box_rows);
}

}  // namespace smem::gemm::fp16x3
