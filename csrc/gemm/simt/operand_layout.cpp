#include "gemm/simt/operand_layout.h"

#include <algorithm>
#include <cstdint>

namespace smem::gemm::simt {
namespace {

/// Tried in this order.
constexpr LayoutPair FASTEST_FIRST[] = {
    LayoutPair::both_mn_major,
    LayoutPair::both_k_major,
    LayoutPair::a_k_major_b_mn_major,
    LayoutPair::a_k_major_b_unknown,
    LayoutPair::via_registers,
    LayoutPair::ldg,
    LayoutPair::by_warp,
    LayoutPair::unknown,
};

}  // namespace

OperandLayout layout_of_a(const Problem& p) {
  return {p.M, p.a.row_stride, p.a.col_stride, p.a.data, Tensor::A};
}

OperandLayout layout_of_b(const Problem& p) {
  return {p.N, p.b.col_stride, p.b.row_stride, p.b.data, Tensor::B};
}

bool supports(const Problem& problem, const OperandLayout& operand, LoadMode mode) {
  if (mode == LoadMode::dynamic || mode == LoadMode::ldg || mode == LoadMode::by_warp) return true;
  if (mode == LoadMode::scalar_via_registers) {
    return std::max({operand.mn_stride, operand.k_stride, problem.K}) <= MAX_STRIDE_VIA_REGISTERS;
  }
  const bool along_mn = mode == LoadMode::vec16_along_mn;
  const auto width = static_cast<int64_t>(16 / size_of(problem.dtype));
  if ((along_mn ? operand.mn_stride : operand.k_stride) != 1) return false;
  if ((along_mn ? operand.k_stride : operand.mn_stride) % width != 0) return false;
  if (reinterpret_cast<uintptr_t>(operand.data) % 16 != 0) return false;
  for (int d = 0; d < problem.batch.rank; ++d) {
    if (problem.batch.stride[operand.tensor][d] % width != 0) return false;
  }
  return true;
}

std::optional<LayoutPair> layout_pair_for(const Problem& problem, int tile) {
  const OperandLayout a = layout_of_a(problem), b = layout_of_b(problem);
  const size_t size = size_of(problem.dtype);
  const auto matches = [&](LayoutPair pair) {
    const LayoutPairRow modes = load_modes(pair);
    return has_kernel(tile, pair, size) && supports(problem, a, modes.a) &&
           supports(problem, b, modes.b);
  };
  // Copies of vectors hide more latency than loads one step ahead: 16 x 16 x 1048576 takes 0.7
  // times as long by them.
  constexpr int64_t LONG_K = 256;
  const bool has_vectors = supports(problem, a, LoadMode::vec16_along_mn) ||
                           supports(problem, b, LoadMode::vec16_along_mn);
  for (const LayoutPair pair : FASTEST_FIRST) {
    if (!matches(pair)) continue;
    if (pair == LayoutPair::via_registers && matches(LayoutPair::unknown) && has_vectors &&
        problem.K >= LONG_K) {
      continue;
    }
    return pair;
  }
  return std::nullopt;
}

}  // namespace smem::gemm::simt
