// cp.async: an asynchronous copy from global to shared memory, which needs no register (sm_80).
// PTX ISA, "Data Movement and Conversion Instructions: cp.async". On the CPU, the emulator performs
// the copy at the wait, so that a missing wait is found.
#pragma once

#include "device/vector.h"

namespace smem::inline SMEM_BUILD {

/// PTX cp.async.cg (16 bytes) or cp.async.ca (4 or 8 bytes), with zero fill. Copies N elements to
/// shared memory: the first `num_valid` are read, the others become zero. They are visible to the
/// block after `cp_async_wait_all` and a barrier. Copies of less than 4 bytes, and
/// all copies on GPUs before sm_80, go through registers instead.
template <int N, typename T>
__device__ __forceinline__ void cp_async(T* shared, const T* global, int num_valid) {
  constexpr int BYTES = N * sizeof(T);
  static_assert(BYTES <= 16, "a thread copies at most 16 bytes at once");
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  constexpr bool THROUGH_REGISTERS = true;
#else
  constexpr bool THROUGH_REGISTERS = BYTES < 4;
#endif
  if constexpr (THROUGH_REGISTERS) {
    store_vector<N>(shared, load_vector<N>(global, num_valid));
  } else {
    const int bytes_read = num_valid <= 0 ? 0 : num_valid < N ? num_valid * int{sizeof(T)} : BYTES;
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
    smem_cp_async(shared, global, BYTES, bytes_read);
#endif
  }
}

/// The same of 16 bytes, of which the first `bytes_read` are read, for several copies that share
/// that number. Not by cp_async above, since that changes the machine code of fp16x3. Does nothing
/// below sm_80.
__device__ __forceinline__ void cp_async_16(void* shared, const void* global, int bytes_read) {
#if defined(__CUDA_ARCH__)
#if __CUDA_ARCH__ >= 800
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(global),
               "r"(bytes_read)
               : "memory");
#endif
#elif !defined(__CUDACC__)
  smem_cp_async(shared, global, 16, bytes_read);
#endif
}

/// The same of BYTES bytes, 4, 8 or 16: reads all of them, or writes zeros (PTX's operand
/// ignore-src). A number of bytes that is only known at run time takes five instructions more. Of
/// 16 bytes L2 fetches the whole cache line: other blocks may copy the rest of it.
template <int BYTES>
__device__ __forceinline__ void cp_async_or_zero(void* shared, const void* global, bool is_read) {
#if defined(__CUDA_ARCH__)
#if __CUDA_ARCH__ >= 800
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  if constexpr (BYTES == 16) {
    asm volatile(
        "{\n"
        ".reg .pred ignore_src;\n"
        "setp.eq.u32 ignore_src, %2, 0;\n"
        "cp.async.cg.shared.global.L2::128B [%0], [%1], 16, ignore_src;\n"
        "}" ::"r"(to),
        "l"(global), "r"(static_cast<unsigned>(is_read))
        : "memory");
  } else {
    asm volatile(
        "{\n"
        ".reg .pred ignore_src;\n"
        "setp.eq.u32 ignore_src, %2, 0;\n"
        "cp.async.ca.shared.global [%0], [%1], %3, ignore_src;\n"
        "}" ::"r"(to),
        "l"(global), "r"(static_cast<unsigned>(is_read)), "n"(BYTES)
        : "memory");
  }
#endif
#elif !defined(__CUDACC__)
  smem_cp_async(shared, global, BYTES, is_read ? BYTES : 0);
#endif
}

/// PTX cp.async.commit_group: the calling thread's copies since the last commit become a group.
__device__ __forceinline__ void cp_async_commit() {
#if defined(__CUDA_ARCH__)
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;\n" ::: "memory");
#endif
#elif !defined(__CUDACC__)
  smem_cp_async_commit();
#endif
}

/// PTX cp.async.wait_group: waits until at most the MAX_PENDING newest groups of the calling thread
/// are pending. Other threads see the copies after a barrier.
template <int MAX_PENDING>
__device__ __forceinline__ void cp_async_wait() {
#if defined(__CUDA_ARCH__)
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;\n" ::"n"(MAX_PENDING) : "memory");
#endif
#elif !defined(__CUDACC__)
  smem_cp_async_wait(MAX_PENDING);
#endif
}

/// PTX cp.async.wait_all: waits for all copies of the calling thread, committed or not.
__device__ __forceinline__ void cp_async_wait_all() {
#if defined(__CUDA_ARCH__)
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;\n" ::: "memory");
#endif
#elif !defined(__CUDACC__)
  smem_cp_async_commit();
  smem_cp_async_wait(0);
#endif
}

}  // namespace smem::inline SMEM_BUILD
