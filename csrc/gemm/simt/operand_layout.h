// How an operand lies in memory, and which of a tile's kernels can load both.
#pragma once

#include <optional>

#include "gemm/simt/tile_config.h"

namespace smem::gemm::simt {

/// X(mn, k): A, or B transposed.
struct OperandLayout {
  int64_t extent, mn_stride, k_stride;
  const void* data;
  Tensor tensor;
};
OperandLayout layout_of_a(const Problem& problem);
OperandLayout layout_of_b(const Problem& problem);

/// Whether all matrices of the operand can be loaded in this mode.
bool supports(const Problem& problem, const OperandLayout& operand, LoadMode mode);

/// The fastest layout pair of the tile that both operands match; nothing if there is none.
std::optional<LayoutPair> layout_pair_for(const Problem& problem, int tile);

}  // namespace smem::gemm::simt
