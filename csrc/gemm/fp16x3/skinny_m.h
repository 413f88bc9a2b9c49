// The product for a small M, up to 64: B is read once and split inside the product.
#pragma once

#include "gemm/fp16x3/split.h"
#include "gemm/gemm.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {

/// Whether the skinny kernel takes the problem. gemm.h takes every problem. `uses_tma`: A is loaded
/// by TMA, which is Hopper's; otherwise the kernel needs as much shared memory as an A100 has.
bool can_implement_skinny_m(const Problem& problem, const split::SplitOperand& b, bool uses_tma,
                            const Device& device);

/// Computes out for the problem's one batch loop. With split-K (split_k.h) it instead stores the
/// accumulators of each k slice to `partials`. The previous launch has split A. `b` needs memory
/// for the results per row, not for hi and lo.
void launch_skinny_m(const Problem& problem, const split::SplitOperand& a,
                     const split::SplitOperand& b, float* partials, bool uses_tma,
                     const Device& device);

/// Whether the skinny kernel for a kept split of B takes the problem, on a GPU with TMA.
bool can_implement_skinny_m_hi_lo(const Problem& problem);

/// As launch_skinny_m, with TMA, if hi and lo of B are in memory.
void launch_skinny_m_hi_lo(const Problem& problem, const split::SplitOperand& a,
                           const split::SplitOperand& b, float* partials, const Device& device);

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
