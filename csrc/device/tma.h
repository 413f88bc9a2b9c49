// TMA: one thread has TMA move a box of a tensor between global and shared memory. What
// lies outside the tensor comes as zeros and is not written. The tensor map (host side:
// gemm/sm90/tensor_map.h) holds address, sizes, strides, box and swizzle; coordinates are in
// elements, the contiguous dimension first.
// PTX ISA, "Data Movement and Conversion Instructions: cp.async.bulk.tensor". sm_90.
#pragma once

#include <cuda.h>

#include "device/mbarrier.h"

namespace smem {
inline namespace SMEM_BUILD {

struct Coordinates {
  int x, y, z;
};

/// Hides the first access to the map, which lies in the kernel's parameters.
__device__ __forceinline__ void prefetch_tensor_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

/// The bytes of the box, inside the tensor or not, count on `barrier`.
__device__ __forceinline__ void tma_load(void* shared, const CUtensorMap& map, Coordinates at,
                                         Barrier& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(shared_address(shared)),
      "l"(&map), "r"(at.x), "r"(at.y), "r"(at.z), "r"(shared_address(&barrier))
      : "memory");
}

/// The same into several blocks of the cluster, one a bit of `blocks`: to the same place in each,
/// counting on the barrier at the same place.
__device__ __forceinline__ void tma_load(void* shared, const CUtensorMap& map, Coordinates at,
                                         Barrier& barrier, uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(shared_address(shared)),
      "l"(&map), "r"(at.x), "r"(at.y), "r"(at.z), "r"(shared_address(&barrier)), "h"(blocks)
      : "memory");
}

/// Begins a copy to global memory, which belongs to the thread's current group of stores.
__device__ __forceinline__ void tma_store(const CUtensorMap& map, Coordinates at,
                                          const void* shared) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(
          &map),
      "r"(at.x), "r"(at.y), "r"(at.z), "r"(shared_address(shared))
      : "memory");
}
__device__ __forceinline__ void tma_store_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/// Until at most GROUPS of the thread's latest store groups still read shared memory.
template <int GROUPS>
__device__ __forceinline__ void tma_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(GROUPS) : "memory");
}

/// What this thread wrote to shared memory by plain stores, TMA and the tensor cores
/// may read after this and a barrier.
__device__ __forceinline__ void fence_view_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace SMEM_BUILD
}  // namespace smem
