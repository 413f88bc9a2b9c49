// Programmatic dependent launch (PDL): a kernel that is launched with `launch_with_pdl` may begin
// once every block of the kernel before it in the stream has called launch_dependent_grids or
// ended. It need not wait until that kernel's results are in memory. PTX ISA, "griddepcontrol".
// sm_90; on other GPUs kernels run one after the other.
//
// Every kernel in the chain must call wait_on_dependent_grids, even if it does so last: when the
// call of one kernel returns, all kernels before it have ended. Before the call a kernel may read
// only what was in memory before the chain began.
//
// A block that begins early takes whatever SM has room, so neighbours no longer share what they
// read from L2. Splits, and packs before short products, gain more than that by the call; products
// before a reduction do not, and leave it out (bench/NOTES.md, 2.5).
#pragma once

#include "device/platform.h"

namespace smem::inline SMEM_BUILD {

/// PTX griddepcontrol.launch_dependents; cutlass::arch::launch_dependent_grids. The next kernel may
/// begin once all blocks of this one have called it.
__device__ __forceinline__ void launch_dependent_grids() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// PTX griddepcontrol.wait; cutlass::arch::wait_on_dependent_grids. Waits until the kernels before
/// have ended and their writes are visible.
__device__ __forceinline__ void wait_on_dependent_grids() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace smem::inline SMEM_BUILD
