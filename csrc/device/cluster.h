// Thread block clusters: blocks that run at the same time in one GPC and can access each other's
// shared memory. PTX ISA, "barrier.cluster" and "Special Registers: %cluster_ctarank". sm_90.
#pragma once

#include <cstdint>

#include "device/platform.h"

#ifndef __CUDACC__
#include "cpu_emulator/device/cluster.h"
#else

namespace smem::inline SMEM_BUILD {

/// PTX %cluster_ctarank; cute::block_rank_in_cluster.
__device__ __forceinline__ uint32_t block_rank_in_cluster() {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// PTX barrier.cluster.arrive and .wait; cute::cluster_sync. Waits for all threads of all blocks of
/// the cluster. Writes before it are visible to all of them after it.
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

}  // namespace smem::inline SMEM_BUILD

#endif
