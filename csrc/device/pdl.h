// Programmatic dependent launch: a kernel launched with `launch_with_pdl` may begin when all blocks of the
// one before it in the stream have said that it may, or have ended, instead of when their results
// have reached memory. PTX ISA, "griddepcontrol". sm_90; elsewhere kernels begin one after the
// other.
//
// Every kernel of a chain waits, be it at its end: so when the wait of one returns, all before it
// have ended. Kernels must not read what others of the chain have written before they have waited;
// what was in memory before the chain they may.
#pragma once

#include "device/platform.h"

namespace smem {
inline namespace SMEM_BUILD {

/// Lets the next kernel begin, if all blocks of this one have come as far.
__device__ __forceinline__ void launch_dependent_grids() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Until the kernels before have ended and what they wrote can be read.
__device__ __forceinline__ void wait_on_dependent_grids() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace SMEM_BUILD
}  // namespace smem
