// Adds the sums of chunks of K.
#pragma once

#include "gemm/gemm.h"

namespace smem::gemm::sm90 {

/// Floats from row to row of a chunk's sums: they are written in pairs.
inline int64_t partial_pitch(int64_t N) { return N + N % 2; }

/// out of one launch's members from `partials`, members x chunks x M x partial_pitch(N) floats.
void reduce(const Problem& problem, int64_t members, int chunks, const float* partials,
            const Device& device);

}  // namespace smem::gemm::sm90
