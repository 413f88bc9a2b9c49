// cp.async: a copy from global to shared memory that needs no register and does not wait (sm_80).
// PTX ISA, "Data Movement and Conversion Instructions: cp.async".
#pragma once

#include "device/vector.h"

namespace smem {
inline namespace SMEM_BUILD {

/// Copies a run of N elements to shared memory, of which the first `inside` are read and the others
/// become zero. They are there after `wait_for_copies` and a barrier. cp.async moves 4, 8 or 16
/// bytes: two-byte elements, and chips before sm_80, go through registers instead.
template <int N, typename T>
__device__ __forceinline__ void copy_async(T* shared, const T* global, int inside) {
  constexpr int BYTES = N * sizeof(T);
  static_assert(BYTES <= 16, "a thread copies at most 16 bytes at once");
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (BYTES >= 4) {
    const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    const int bytes_read = inside <= 0 ? 0 : inside < N ? inside * int{sizeof(T)} : BYTES;
    if constexpr (BYTES == 16) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(global),
                   "r"(bytes_read)
                   : "memory");
    } else {
      asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;\n" ::"r"(to), "l"(global),
                   "n"(BYTES), "r"(bytes_read)
                   : "memory");
    }
    return;
  }
#endif
  store_vector<N>(shared, load_vector<N>(global, inside));
}

/// Waits until all of the calling thread's copies have landed; a barrier shows them to the others.
__device__ __forceinline__ void wait_for_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;\n" ::: "memory");
#endif
}

}  // namespace SMEM_BUILD
}  // namespace smem
