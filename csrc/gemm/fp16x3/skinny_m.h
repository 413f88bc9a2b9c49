// The product for a small M, up to 64, and for groups of so many rows: B is split inside the
// product.
#pragma once

#include "gemm/fp16x3/split.h"
#include "gemm/gemm.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {

constexpr int64_t SKINNY_MAX_M = 64;

/// Whether the skinny kernel takes the problem. gemm.h takes every problem. `uses_tma`: A is loaded
/// by TMA, which is Hopper's; otherwise the kernel needs as much shared memory as an A100 has.
bool can_implement_skinny_m(const Problem& problem, const split::SplitOperand& b, bool uses_tma,
                            const Device& device);

/// The problem as a batch of groups of rows of A, if they are to be computed apart from each other;
/// else the problem. Each group splits B, which all share, so out gets several times as many
/// blocks: where it has too few for the GPU, that is faster than one split of B and tiles of 128
/// rows. The last group may begin with rows of the group before. The bits are the same.
Problem skinny_m_row_groups(const Problem& problem, const split::SplitOperand& b,
                            const Device& device);

/// Computes out for the problem's one batch loop. With split-K (split_k.h) it instead stores the
/// accumulators of each k slice to `partials`. The previous launch has split A. `b` needs memory
/// for the results per row, not for hi and lo.
void launch_skinny_m(const Problem& problem, const split::SplitOperand& a,
                     const split::SplitOperand& b, float* partials, bool uses_tma,
                     const Device& device);

/// Whether skinny_m_rs.cu's kernel, for Hopper, takes B and is faster: if there are many columns.
bool is_fastest_by_rs(const Problem& problem, const split::SplitOperand& b, const Device& device);

/// As launch_skinny_m, by that kernel.
void launch_skinny_m_rs(const Problem& problem, const split::SplitOperand& a,
                        const split::SplitOperand& b, const Device& device);

/// As launch_skinny_m, with TMA, if hi and lo of B are in memory. Takes every M up to SKINNY_MAX_M.
void launch_skinny_m_hi_lo(const Problem& problem, const split::SplitOperand& a,
                           const split::SplitOperand& b, float* partials, const Device& device);

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
