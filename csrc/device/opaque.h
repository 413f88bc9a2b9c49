// Hides a value's origin from the compiler, by an empty asm statement that could change it. The
// value then stays in its register: nvcc would otherwise recompute addresses in every step of a
// loop, or keep several pointers where one is enough.
#pragma once

#include <type_traits>

#include "device/platform.h"

namespace smem::inline SMEM_BUILD {

template <typename T>
__device__ __forceinline__ void opaque(T& value) {
#ifdef __CUDA_ARCH__
  if constexpr (std::is_same_v<T, float>) {
    asm volatile("" : "+f"(value));
  } else if constexpr (std::is_same_v<T, double>) {
    asm volatile("" : "+d"(value));
  } else if constexpr (sizeof(T) == 8) {
    asm volatile("" : "+l"(value));
  } else {
    asm volatile("" : "+r"(value));
  }
#else
  (void)value;
#endif
}

}  // namespace smem::inline SMEM_BUILD
