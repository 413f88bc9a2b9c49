// How TMA reads the halves of a split operand.
#pragma once

#include "gemm/sm90/tensor_map.h"
#include "gemm/fp16x3/split.h"

namespace smem::gemm::fp16x3 {

/// Boxes of a piece, hi and lo, of so many lines of a part.
inline CUtensorMap box_map(const split::Split& split, int lines) {
  return sm90::make_tensor_map({DType::f16, split.halves, split.pitch(), split.lines,
                                  split.all_parts(), split.pitch(), split.lines * split.pitch()},
                                 2 * split::PIECE, lines);
}

}  // namespace smem::gemm::fp16x3
