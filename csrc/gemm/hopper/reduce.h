// Adds the sums of chunks of K.
#pragma once

#include "gemm/gemm.h"

namespace smem::gemm::hopper {

/// out of one launch's members from `partials`, members x chunks x M x N floats.
void reduce(const Problem& problem, int64_t members, int chunks, const float* partials,
            const Device& device);

}  // namespace smem::gemm::hopper
