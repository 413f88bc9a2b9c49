// Where a thread is in a pipeline of shared memory stages.
#pragma once

#include <cstdint>

#include "device/platform.h"

namespace smem::gemm::inline SMEM_BUILD {

/// A position in the circular buffer of stages. A consumer waits for full[stage] with `parity`, the
/// producer for empty[stage] with the other one, which holds at once in the first round.
template <int STAGES>
struct PipelineState {
  int stage = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void next() {
    if (++stage == STAGES) {
      stage = 0;
      parity ^= 1;
    }
  }
};

}  // namespace smem::gemm::inline SMEM_BUILD
