// device/warpgroup.h for the emulator, under the same names.
#pragma once

#include "cpu_emulator/sm90/api.h"
#include "device/platform.h"

namespace smem {
inline namespace SMEM_BUILD {

constexpr int WARP = 32, WARPGROUP = 128;

// The emulator's threads have as many registers as they need.
template <int REGISTERS>
__device__ __forceinline__ void warpgroup_reg_dealloc() {}
template <int REGISTERS>
__device__ __forceinline__ void warpgroup_reg_alloc() {}

template <int THREADS>
__device__ __forceinline__ void named_barrier_sync(int barrier = 1) {
  smem_named_barrier(barrier, THREADS, true);
}
template <int THREADS>
__device__ __forceinline__ void named_barrier_arrive(int barrier = 1) {
  smem_named_barrier(barrier, THREADS, false);
}

__device__ __forceinline__ bool elect_one() { return smem_lane() == 0; }

}  // namespace SMEM_BUILD
}  // namespace smem
