// device/cluster.h and device/dsmem.h for the emulator, under the same names.
#pragma once

#include "cpu_emulator/sm90/api.h"
#include "device/mbarrier.h"

namespace smem {
inline namespace SMEM_BUILD {

__device__ __forceinline__ uint32_t block_rank_in_cluster() { return smem_cluster_rank(); }

template <typename T>
__device__ __forceinline__ const T* map_shared_rank(const T* shared, uint32_t rank) {
  return static_cast<const T*>(smem_map_shared_rank(shared, rank));
}

__device__ __forceinline__ void store_async_in(uint32_t rank, uint32_t* shared, uint32_t value,
                                               Barrier& barrier) {
  smem_store_async_in(rank, shared, value, &barrier);
}

__device__ __forceinline__ void cluster_arrive() { smem_cluster_arrive(); }
__device__ __forceinline__ void cluster_wait() { smem_cluster_wait(); }
__device__ __forceinline__ void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}

}  // namespace SMEM_BUILD
}  // namespace smem
