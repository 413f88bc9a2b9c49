// Adds the partials of split-K slices.
#pragma once

#include "gemm/gemm.h"

namespace smem::gemm {

/// Row stride of a slice's partials, in floats: even, because they are written in pairs.
inline int64_t partial_pitch(int64_t N) { return N + N % 2; }

inline namespace SMEM_BUILD {

/// Computes out of one launch from `partials`: batch_count x split_k_slices x M x partial_pitch(N)
/// floats.
void reduce_split_k(const Problem& problem, int64_t batch_count, int split_k_slices,
                    const float* partials, const Device& device);

}  // namespace SMEM_BUILD
}  // namespace smem::gemm
