// A warpgroup: four consecutive warps, the unit that wgmma and setmaxnreg speak of. sm_90a.
#pragma once

#include "device/platform.h"

namespace smem {
inline namespace SMEM_BUILD {

constexpr int WARP = 32, WARPGROUP = 128;

/// Give registers back to the SM, or take more. All warps of the warpgroup; the counts
/// are multiples of 8 and the sum over the block's threads must stay within what it started with.
/// PTX ISA, "setmaxnreg".
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

/// A barrier of the block that THREADS take part in: whole warps that wait for all of them, or are
/// counted and go on. PTX ISA, "barrier".
template <int THREADS>
__device__ __forceinline__ void named_barrier_sync() {
  asm volatile("barrier.cta.sync.aligned 1, %0;" ::"n"(THREADS) : "memory");
}
template <int THREADS>
__device__ __forceinline__ void named_barrier_arrive() {
  asm volatile("barrier.cta.arrive.aligned 1, %0;" ::"n"(THREADS) : "memory");
}

/// One thread of a converged warp, always the same.
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

}  // namespace SMEM_BUILD
}  // namespace smem
