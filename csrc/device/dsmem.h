// The shared memory of the other blocks of a cluster (device/cluster.h). PTX ISA, "mapa" and
// "barrier.cluster". sm_90.
#pragma once

#include <cstdint>

#include "device/platform.h"

namespace smem {
inline namespace SMEM_BUILD {

/// What stands at `shared` of this block, of another block of the cluster.
template <typename T>
__device__ __forceinline__ const T* map_shared_rank(const T* shared, uint32_t rank) {
  const T* there;
  asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(shared), "r"(rank));
  return there;
}

/// A cluster's barrier in two: that this thread no longer reads other blocks' memory, ...
__device__ __forceinline__ void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
/// ... and that nobody reads this block's, so that the block may end.
__device__ __forceinline__ void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

}  // namespace SMEM_BUILD
}  // namespace smem
