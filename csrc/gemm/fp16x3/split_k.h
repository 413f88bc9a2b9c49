// Split-K: K is cut into slices if out has too few tiles to keep all SMs busy.
#pragma once

#include "gemm/fp16x3/split.h"
#include "gemm/gemm.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {

/// How K is cut. It is a function of N and K alone, because the bits of the results depend on it.
struct SplitKConfig {
  int64_t slice_length;  ///< the last slice may be shorter
  int64_t slices;

  SplitKConfig(int64_t N, int64_t K);
  /// Bytes of the partials: an M x N matrix of floats per matrix of the batch and k slice of it, or
  /// nothing if there is one slice.
  size_t partials_bytes(const Problem& problem) const;
};

/// Adds the partials of all k slices, which are those of the split operands (split.h), and applies
/// the epilogue. Partials of FALLBACK rows and columns are not scaled. The problem has at most one
/// batch loop.
void reduce_split_k(const Problem& problem, const split::SplitOperand& a,
                    const split::SplitOperand& b, const float* partials, const Device& device);

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
