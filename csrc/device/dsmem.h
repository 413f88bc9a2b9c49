// Distributed shared memory: access to the shared memory of the other blocks of a cluster
// (device/cluster.h). PTX ISA, "mapa", "st.async" and "barrier.cluster". sm_90.
#pragma once

#include <cstdint>

#include "device/mbarrier.h"

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

/// PTX st.async. Stores `value` at the address of `shared` in block `rank` of the cluster. Its four
/// bytes complete on the barrier at the address of `barrier` there; a thread that has waited for
/// the phase sees the value. A block that is no part of a cluster may not use it.
__device__ __forceinline__ void store_async_in(uint32_t rank, uint32_t* shared, uint32_t value,
                                               Barrier& barrier) {
  asm volatile(
      "{\n"
      ".reg .b32 remote, remote_barrier;\n"
      "mapa.shared::cluster.u32 remote, %0, %3;\n"
      "mapa.shared::cluster.u32 remote_barrier, %2, %3;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [remote], %1, [remote_barrier];\n"
      "}" ::"r"(shared_address(shared)),
      "r"(value), "r"(shared_address(&barrier)), "r"(rank)
      : "memory");
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
