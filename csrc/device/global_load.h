// A load from global memory on a condition, without a branch.
#pragma once

#include <cstdint>

#include "device/platform.h"

namespace smem::inline SMEM_BUILD {

/// PTX ld.global.nc under a predicate, as cutlass::arch::global_load: the 2 or 4 bytes at `from`,
/// zeros in front; zero if not `valid`, and nothing is read then. Around a plain load nvcc
/// branches, and loads behind one another wait for each other. No kernel that runs at the same time
/// may write these bytes.
template <int BYTES>
__device__ __forceinline__ uint32_t global_load(const void* from, bool valid) {
  static_assert(BYTES == 2 || BYTES == 4, "an element or a pair of elements");
#ifdef __CUDA_ARCH__
  uint32_t word;
  if constexpr (BYTES == 2) {
    asm("{\n.reg .pred p;\nsetp.ne.b32 p, %2, 0;\nmov.b32 %0, 0;\n@p ld.global.nc.u16 %0, "
        "[%1];\n}\n"
        : "=&r"(word)
        : "l"(from), "r"(static_cast<int>(valid)));
  } else {
    asm("{\n.reg .pred p;\nsetp.ne.b32 p, %2, 0;\nmov.b32 %0, 0;\n@p ld.global.nc.u32 %0, "
        "[%1];\n}\n"
        : "=&r"(word)
        : "l"(from), "r"(static_cast<int>(valid)));
  }
  return word;
#else
  if (!valid) return 0;
  return BYTES == 2 ? *static_cast<const uint16_t*>(from) : *static_cast<const uint32_t*>(from);
#endif
}

}  // namespace smem::inline SMEM_BUILD
