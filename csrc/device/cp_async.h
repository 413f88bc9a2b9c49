// cp.async: a copy from global to shared memory that needs no register and does not wait (sm_80).
// PTX ISA, "Data Movement and Conversion Instructions: cp.async".
#pragma once

#include "device/vector.h"

namespace smem {
inline namespace SMEM_BUILD {

/// Copies a run of N elements to shared memory, of which the first `inside` are read and the others
/// become zero. They are there after `cp_async_wait_all` and a barrier. cp.async moves 4, 8 or 16
/// bytes: two-byte elements, and chips before sm_80, go through registers instead.
template <int N, typename T>
__device__ __forceinline__ void cp_async(T* shared, const T* global, int inside,
                                           Site site = Site::here()) {
  constexpr int BYTES = N * sizeof(T);
  static_assert(BYTES <= 16, "a thread copies at most 16 bytes at once");
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  constexpr bool THROUGH_REGISTERS = true;
#else
  constexpr bool THROUGH_REGISTERS = BYTES < 4;
#endif
  if constexpr (THROUGH_REGISTERS) {
    store_vector<N>(shared, load_vector<N>(global, inside, site), site);
  } else {
    const int bytes_read = inside <= 0 ? 0 : inside < N ? inside * int{sizeof(T)} : BYTES;
#if defined(__CUDA_ARCH__)
    const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    if constexpr (BYTES == 16) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(global),
                   "r"(bytes_read)
                   : "memory");
    } else {
      asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;\n" ::"r"(to), "l"(global),
                   "n"(BYTES), "r"(bytes_read)
                   : "memory");
    }
#elif !defined(__CUDACC__)
    copy_run(shared, global, BYTES, bytes_read, site);
#endif
  }
}

/// Closes the calling thread's current group of copies.
__device__ __forceinline__ void cp_async_commit() {
#if defined(__CUDA_ARCH__)
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;\n" ::: "memory");
#endif
#elif !defined(__CUDACC__)
  cpu_emulator::cp_async_commit();
#endif
}

/// Waits until of the calling thread's groups all but the GROUPS_LEFT newest have landed; a barrier
/// shows them to the other threads.
template <int GROUPS_LEFT>
__device__ __forceinline__ void cp_async_wait() {
#if defined(__CUDA_ARCH__)
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;\n" ::"n"(GROUPS_LEFT) : "memory");
#endif
#elif !defined(__CUDACC__)
  cpu_emulator::cp_async_wait(GROUPS_LEFT);
#endif
}

/// Waits until all of the calling thread's copies have landed, committed or not.
__device__ __forceinline__ void cp_async_wait_all() {
#if defined(__CUDA_ARCH__)
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;\n" ::: "memory");
#endif
#elif !defined(__CUDACC__)
  cpu_emulator::cp_async_wait_all();
#endif
}

}  // namespace SMEM_BUILD
}  // namespace smem
