// device/mbarrier.h for the emulator, under the same names.
#pragma once

#include "cpu_emulator/sm90/api.h"
#include "device/platform.h"

namespace smem {
inline namespace SMEM_BUILD {

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return smem_shared_address(pointer);
}

/// The emulator keeps the state.
struct alignas(8) Barrier {
  uint64_t state;

  __device__ __forceinline__ void init(uint32_t count) { smem_mbarrier_init(this, count); }
  __device__ __forceinline__ void arrive() { smem_mbarrier_arrive(this, 0); }
  __device__ __forceinline__ void arrive_after_copies() { smem_mbarrier_arrive_after_copies(this); }
  __device__ __forceinline__ void arrive_and_expect_tx(uint32_t bytes) {
    smem_mbarrier_arrive(this, bytes);
  }
  __device__ __forceinline__ void arrive_in(uint32_t block_rank) {
    smem_mbarrier_arrive_in(this, block_rank);
  }
  __device__ __forceinline__ void wait(uint32_t parity) { smem_mbarrier_wait(this, parity); }
};

__device__ __forceinline__ void fence_barrier_init() { smem_fence_mbarrier_init(); }

}  // namespace SMEM_BUILD
}  // namespace smem
