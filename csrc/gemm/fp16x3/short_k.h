// The product for a short K, up to 128, and few rows, up to 64, in one launch, which splits both
// operands itself.
#pragma once

#include "gemm/gemm.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {

/// Whether the kernel takes the problem, and is the fastest of those that give the same bits.
bool is_fastest_by_short_k(const Problem& problem);

/// Computes out for the problem's one batch loop. Needs no workspace.
void launch_short_k(const Problem& problem, const Device& device);

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
