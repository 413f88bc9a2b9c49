// The product of two operands that have been split into halves (gemm/fp16x3/split.h).
#pragma once

#include "gemm/gemm.h"
#include "gemm/fp16x3/split.h"

namespace smem::gemm::fp16x3 {

/// out of the members of the problem's one batch loop, but for EXACT lines; or where K is cut
/// (split_k.h) the sums over its chunks, to `partials`.
void multiply(const Problem& problem, const split::Split& a, const split::Split& b, float* partials,
              const Device& device);

/// The kernel's function, for cudaFuncGetAttributes.
const void* product_function();

}  // namespace smem::gemm::fp16x3
