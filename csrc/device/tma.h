// TMA, the tensor memory accelerator: one thread starts an asynchronous copy of a box of a tensor
// between global and shared memory. Elements outside the tensor are loaded as zeros and not stored.
// The tensor map (host side: gemm/sm90/tensor_map.h) holds the address, sizes, strides, box and
// swizzle; coordinates are in elements, the contiguous dimension first.
// PTX ISA, "Data Movement and Conversion Instructions: cp.async.bulk.tensor". sm_90.
#pragma once

#include "device/mbarrier.h"
#include "device/tensor_map.h"

#ifndef __CUDACC__
#include "cpu_emulator/device/tma.h"
#else

namespace smem::inline SMEM_BUILD {

struct Coordinates {
  int x, y, z;
};

/// PTX prefetch.tensormap; cute::prefetch_tma_descriptor. Hides the latency of the first access to
/// the map, which is a kernel parameter.
__device__ __forceinline__ void prefetch_tensor_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

/// PTX cp.async.bulk.tensor.3d from global to shared memory; cute::SM90_TMA_LOAD_3D. All bytes of
/// the box, inside the tensor or not, complete on `barrier`.
__device__ __forceinline__ void tma_load(void* shared, const CUtensorMap& map, Coordinates at,
                                         Barrier& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(shared_address(shared)),
      "l"(&map), "r"(at.x), "r"(at.y), "r"(at.z), "r"(shared_address(&barrier))
      : "memory");
}

/// The same with .multicast::cluster; cute::SM90_TMA_LOAD_MULTICAST_3D. Bit i of `blocks` selects
/// block i of the cluster. The box goes to the same address in each selected block and completes on
/// the barrier at the same address there.
__device__ __forceinline__ void tma_load(void* shared, const CUtensorMap& map, Coordinates at,
                                         Barrier& barrier, uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(shared_address(shared)),
      "l"(&map), "r"(at.x), "r"(at.y), "r"(at.z), "r"(shared_address(&barrier)), "h"(blocks)
      : "memory");
}

/// PTX cp.async.bulk.tensor.3d from shared to global memory; cute::SM90_TMA_STORE_3D. The copy
/// belongs to the thread's current bulk group.
__device__ __forceinline__ void tma_store(const CUtensorMap& map, Coordinates at,
                                          const void* shared) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(
          &map),
      "r"(at.x), "r"(at.y), "r"(at.z), "r"(shared_address(shared))
      : "memory");
}
/// PTX cp.async.bulk.commit_group; cute::tma_store_arrive.
__device__ __forceinline__ void tma_store_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/// PTX cp.async.bulk.wait_group.read; cute::tma_store_wait. Waits until at most the MAX_PENDING
/// newest groups of the thread still read shared memory.
template <int MAX_PENDING>
__device__ __forceinline__ void tma_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(MAX_PENDING) : "memory");
}

/// PTX fence.proxy.async; cutlass::arch::fence_view_async_shared. After it and a barrier, TMA and
/// wgmma see what this thread wrote to shared memory by plain stores.
__device__ __forceinline__ void fence_view_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace smem::inline SMEM_BUILD

#endif
