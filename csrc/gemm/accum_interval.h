// Where the tensor-core kernels of 16-bit and tf32 products split K.
#pragma once

#include "gemm/gemm.h"

namespace smem::gemm {

/// The accumulation interval in k-tiles of line_elements(dtype): a new accumulator begins after
/// each, and their results are added in order. All of K, but for narrow outputs and a long K. It
/// decides the bits, and is therefore a function of N, K and the dtype alone.
int64_t accum_interval_of(const Problem& problem);

}  // namespace smem::gemm
