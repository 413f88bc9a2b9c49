// The product where out has few rows: B is read once, and split on the way.
#pragma once

#include "gemm/gemm.h"
#include "gemm/fp16x3/split.h"

namespace smem::gemm::fp16x3 {

/// Whether it takes the problem; other kernels take all.
bool has_few_rows(const Problem& problem, const split::Split& b);

/// out of the members of the problem's one batch loop; or where K is cut (split_k.h) the sums over
/// its chunks, to `partials`. A has been split by the launch before; of B it needs the place for
/// what is to be known of its lines, not for their halves.
void multiply_few_rows(const Problem& problem, const split::Split& a, const split::Split& b,
                       float* partials, const Device& device);

}  // namespace smem::gemm::fp16x3
