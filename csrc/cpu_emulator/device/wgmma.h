// The instructions of device/wgmma.h for the emulator, under the same names.
#pragma once

#include "cpu_emulator/device/format.h"
#include "cpu_emulator/sm90/api.h"
#include "device/major.h"

namespace smem {
inline namespace SMEM_BUILD {

__device__ __forceinline__ uint32_t warp_uniform(uint32_t value) {
  return __reduce_or_sync(~0u, value);
}

__device__ __forceinline__ void warpgroup_arrive() { smem_wgmma_fence(); }
__device__ __forceinline__ void warpgroup_commit_batch() { smem_wgmma_commit(); }
template <int MAX_PENDING>
__device__ __forceinline__ void warpgroup_wait() {
  smem_wgmma_wait(MAX_PENDING);
}
template <typename Register, int COUNT>
__device__ __forceinline__ void warpgroup_fence_operand(Register (& /*registers*/)[COUNT]) {}

template <typename T, Major A_MAJOR, Major B_MAJOR, int N, int COUNT>
__device__ __forceinline__ void wgmma(float (&d)[COUNT], uint64_t a, uint64_t b, int accumulate) {
  static_assert(N % 16 == 0 && N <= 256 && N / 2 <= COUNT, "a value of N that device/wgmma.h has");
  smem_wgmma({FORMAT<T>, N, A_MAJOR == Major::MN, B_MAJOR == Major::MN}, d, nullptr, a, b,
             accumulate != 0);
}

template <typename T, int N>
__device__ __forceinline__ void wgmma_rs(float (&d)[N / 2], const uint32_t (&a)[4], uint64_t b,
                                         int accumulate) {
  smem_wgmma({FORMAT<T>, N, false, false}, d, a, 0, b, accumulate != 0);
}

}  // namespace SMEM_BUILD
}  // namespace smem
