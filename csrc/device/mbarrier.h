// mbarrier: a barrier object in shared memory. Threads arrive on it, and so do asynchronous copies,
// by the number of their bytes. As cutlass::arch::ClusterTransactionBarrier.
// PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier". sm_90; what has no
// bytes to expect and stays in a block also sm_80.
#pragma once

#include <cstdint>

#include "device/platform.h"

#ifndef __CUDACC__
#include "cpu_emulator/device/mbarrier.h"
#else

namespace smem::inline SMEM_BUILD {

/// The address of an object in the shared state space (PTX cvta.to.shared);
/// cute::cast_smem_ptr_to_uint.
__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

/// A phase completes after `count` arrivals and all expected bytes; then the next phase begins. A
/// waiting thread names the phase by its parity: 0, 1, 0, 1 ...
struct alignas(8) Barrier {
  uint64_t state;

  /// PTX mbarrier.init. One thread calls it; the others see the barrier after `fence_barrier_init`
  /// and a barrier of the block or cluster.
  __device__ __forceinline__ void init(uint32_t count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(this)), "r"(count));
  }

  /// PTX mbarrier.arrive.
  __device__ __forceinline__ void arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(this)) : "memory");
  }

  /// PTX cp.async.mbarrier.arrive.noinc: arrives when the calling thread's cp.async have landed.
  __device__ __forceinline__ void arrive_after_copies() {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(this))
                 : "memory");
  }

  /// PTX mbarrier.arrive.expect_tx: arrives, and makes the phase expect `bytes` of copies.
  __device__ __forceinline__ void arrive_and_expect_tx(uint32_t bytes) {
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(this)),
        "r"(bytes)
        : "memory");
  }

  /// PTX mapa and mbarrier.arrive.relaxed.cluster: arrives on the barrier at the same address in
  /// block `block_rank` of the cluster. It does not publish this thread's writes: a release at
  /// cluster scope costs a fence of the whole GPU, which took 30% of a GEMM's speed.
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

  /// PTX mbarrier.try_wait.parity in a loop, or test_wait before sm_90: returns once the phase of
  /// this parity has completed.
  __device__ __forceinline__ void wait(uint32_t parity) {
    asm volatile(
        "{\n"
        ".reg .pred ended;\n"
        "AGAIN:\n"
#if __CUDA_ARCH__ >= 900
        "mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n"
#else
        "mbarrier.test_wait.parity.shared::cta.b64 ended, [%0], %1;\n"
#endif
        "@ended bra DONE;\n"
        "bra AGAIN;\n"
        "DONE:\n"
        "}" ::"r"(shared_address(this)),
        "r"(parity)
        : "memory");
  }
};

/// PTX fence.mbarrier_init and fence.proxy.async; cutlass::arch::fence_barrier_init. Makes `init`
/// visible to other blocks of the cluster and to TMA.
__device__ __forceinline__ void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace smem::inline SMEM_BUILD

#endif
