// Adds the partials of split-K slices.
#pragma once

#include "gemm/batch.h"
#include "gemm/gemm.h"

namespace smem::gemm {

/// Row stride of a slice's partials, in floats: even, because they are written in pairs.
inline int64_t partial_pitch(int64_t N) { return N + N % 2; }

/// Bytes of the partials of one launch; none if K is not split.
inline int64_t partial_bytes(const Problem& problem, int split_k_slices) {
  if (split_k_slices <= 1) return 0;
  return inner_batch_count(problem) * split_k_slices * problem.M * partial_pitch(problem.N) *
         int64_t{sizeof(float)};
}

inline namespace SMEM_BUILD {

/// Computes out of one launch from `partials`: batch_count x split_k_slices x M x partial_pitch(N)
/// floats.
void reduce_split_k(const Problem& problem, int64_t batch_count, int split_k_slices,
                    const float* partials, const Device& device);

}  // namespace SMEM_BUILD
}  // namespace smem::gemm
