// Warpgroups: four consecutive warps, the unit of wgmma and setmaxnreg. sm_90a.
#pragma once

#include <cstdint>

#include "device/platform.h"

#ifndef __CUDACC__
#include "cpu_emulator/device/warpgroup.h"
#else

namespace smem::inline SMEM_BUILD {

constexpr int WARP = 32, WARPGROUP = 128;

/// PTX setmaxnreg.dec and .inc; cutlass::arch::warpgroup_reg_dealloc and warpgroup_reg_alloc. Set
/// the registers per thread; all warps of the warpgroup must call them. The counts are multiples of
/// 8, and the sum over the block's threads must not exceed the registers that it was launched with.
template <int REGISTERS>
__device__ __forceinline__ void warpgroup_reg_dealloc() {
  static_assert(REGISTERS % 8 == 0 && REGISTERS >= 24 && REGISTERS <= 256, "a limit of setmaxnreg");
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS>
__device__ __forceinline__ void warpgroup_reg_alloc() {
  static_assert(REGISTERS % 8 == 0 && REGISTERS >= 24 && REGISTERS <= 256, "a limit of setmaxnreg");
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

/// PTX barrier.cta.sync and .arrive on a barrier of 1 to 15; cutlass::arch::NamedBarrier; sm_70.
/// THREADS threads of the block, in whole warps, take part: a warp that calls sync waits for all of
/// them, a warp that calls arrive does not wait. A barrier that is not a constant reserves all 16.
template <int THREADS>
__device__ __forceinline__ void named_barrier_sync(int barrier = 1) {
  asm volatile("barrier.cta.sync.aligned %0, %1;" ::"r"(barrier), "n"(THREADS) : "memory");
}
template <int THREADS>
__device__ __forceinline__ void named_barrier_arrive(int barrier = 1) {
  asm volatile("barrier.cta.arrive.aligned %0, %1;" ::"r"(barrier), "n"(THREADS) : "memory");
}

/// PTX elect.sync; cute::elect_one_sync. True for one thread of a converged warp, always the same.
__device__ __forceinline__ bool elect_one() {
  uint32_t elected;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "elect.sync _|p, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}"
      : "=r"(elected));
  return elected != 0;
}

}  // namespace smem::inline SMEM_BUILD

#endif
