// The elements that halves cannot give.
#pragma once

#include "gemm/gemm.h"
#include "gemm/split/split.h"

namespace smem::gemm::halves {

/// Computes the elements in EXACT rows of A and columns of B by float32 fmas, as the SIMT kernels
/// do. The problem's batch is one loop at most.
void compute_exactly(const Problem& problem, const split::Split& a, const split::Split& b,
                     const Device& device);

}  // namespace smem::gemm::halves
