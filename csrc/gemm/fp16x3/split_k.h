// K cut into chunks, where out has too few tiles to keep all SMs busy.
#pragma once

#include "gemm/gemm.h"
#include "gemm/fp16x3/split.h"

namespace smem::gemm::fp16x3 {

/// How K is cut: a function of N and K alone, because the bits depend on it.
struct Chunks {
  int64_t length;  ///< of a chunk, the last may be shorter
  int64_t count;

  Chunks(int64_t N, int64_t K);
  /// Of the sums over each chunk, a matrix of floats for each member and chunk of it; none where
  /// there is one chunk.
  size_t bytes(const Problem& problem) const;
};

/// Adds the chunks' sums and makes out of them; those of EXACT lines are not scaled. The chunks are
/// parts of the splits (split.h). One batch loop at most.
void add_chunks(const Problem& problem, const split::Split& a, const split::Split& b,
                const float* partials, const Device& device);

}  // namespace smem::gemm::fp16x3
