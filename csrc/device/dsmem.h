// Distributed shared memory: access to the shared memory of the other blocks of a cluster
// (device/cluster.h). PTX ISA, "mapa" and "barrier.cluster". sm_90.
#pragma once

#include <cstdint>

#include "device/platform.h"

#ifndef __CUDACC__
#include "cpu_emulator/device/cluster.h"
#else

namespace smem::inline SMEM_BUILD {

/// PTX mapa; cooperative_groups' map_shared_rank. The address in block `rank` of the cluster that
/// corresponds to `shared` in this block.
template <typename T>
__device__ __forceinline__ const T* map_shared_rank(const T* shared, uint32_t rank) {
  const T* remote;
  asm("mapa.u64 %0, %1, %2;" : "=l"(remote) : "l"(shared), "r"(rank));
  return remote;
}

/// PTX barrier.cluster.arrive; cute::cluster_arrive. Call it after this thread's last access to the
/// memory of other blocks.
__device__ __forceinline__ void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
/// PTX barrier.cluster.wait; cute::cluster_wait. After it no other block accesses this block's
/// memory, so the block may end.
__device__ __forceinline__ void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

}  // namespace smem::inline SMEM_BUILD

#endif
