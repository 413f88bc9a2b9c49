// The product of two split operands (gemm/fp16x3/split.h) that are in memory, by wgmma.
#pragma once

#include "gemm/fp16x3/split.h"
#include "gemm/gemm.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {

/// Computes out for the problem's one batch loop. With split-K (split_k.h) it instead stores the
/// accumulators of each k slice to `partials`.
void launch_gemm(const Problem& problem, const split::SplitOperand& a, const split::SplitOperand& b,
                 float* partials, const Device& device);

/// The kernel's function, for cudaFuncGetAttributes.
const void* gemm_function();

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
