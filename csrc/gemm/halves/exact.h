// The elements that halves cannot give.
#pragma once

#include "gemm/gemm.h"
#include "gemm/split/split.h"

namespace smem::gemm::halves {

/// Computes the elements in EXACT rows of A and columns of B by float32 fmas, as the SIMT kernels
/// do; where K is cut (chunks.h) their sums over the chunks for which a line is EXACT, to
/// `partials`. The problem's batch is one loop at most.
void compute_exactly(const Problem& problem, const split::Split& a, const split::Split& b,
                     float* partials, const Device& device);

}  // namespace smem::gemm::halves
