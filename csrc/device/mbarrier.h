// mbarrier: a barrier in shared memory on which threads, and copies by their bytes, arrive.
// PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier". sm_90.
#pragma once

#include <cstdint>

#include "device/platform.h"

namespace smem {
inline namespace SMEM_BUILD {

/// The address by which PTX knows a place in this block's shared memory.
__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

/// A phase ends when `count` arrivals and all the bytes announced have come; the next one begins
/// by itself. Whoever waits says which parity the phase has: 0, 1, 0, 1 ...
struct alignas(8) Barrier {
  uint64_t state;

  /// By one thread; others see it after `fence_barrier_init` and a barrier of the block or cluster.
  __device__ __forceinline__ void init(uint32_t count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(this)), "r"(count));
  }

  __device__ __forceinline__ void arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(this)) : "memory");
  }

  /// Arrives, and makes the phase wait for so many bytes of copies.
  __device__ __forceinline__ void arrive_and_expect_tx(uint32_t bytes) {
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(this)),
        "r"(bytes)
        : "memory");
  }

  /// Arrives on the barrier at the same place in another block of the cluster. Says nothing about
  /// what this thread wrote: a release at the scope of a cluster costs a fence of the whole GPU,
  /// seen to take 30% of a GEMM's speed.
  __device__ __forceinline__ void arrive_in(uint32_t block_rank) {
    asm volatile(
        "{\n"
        ".reg .b32 remote;\n"
        "mapa.shared::cluster.u32 remote, %0, %1;\n"
        "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [remote];\n"
        "}" ::"r"(shared_address(this)),
        "r"(block_rank)
        : "memory");
  }

  /// Returns once the phase of this parity has ended.
  __device__ __forceinline__ void wait(uint32_t parity) {
    asm volatile(
        "{\n"
        ".reg .pred ended;\n"
        "AGAIN:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n"
        "@ended bra DONE;\n"
        "bra AGAIN;\n"
        "DONE:\n"
        "}" ::"r"(shared_address(this)),
        "r"(parity)
        : "memory");
  }
};

/// Lets other blocks of the cluster and TMA see what `init` wrote.
__device__ __forceinline__ void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace SMEM_BUILD
}  // namespace smem
