// Prefetch of kernel parameters: no cache has them when a kernel begins.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/platform.h"

namespace smem::inline SMEM_BUILD {

/// Reads one word of each cache line of a parameter (an empty asm statement uses it), so that all
/// lines are fetched at the same time. A line that is fetched at its first use costs about 300
/// cycles.
template <typename Parameter>
__device__ __forceinline__ void prefetch_param(const Parameter& parameter) {
  constexpr size_t LINE_BYTES = 64;
  const auto* bytes = reinterpret_cast<const unsigned char*>(&parameter);
#pragma unroll
  for (size_t at = 0; at < sizeof(Parameter); at += LINE_BYTES) {
    asm volatile("" ::"r"(*reinterpret_cast<const uint32_t*>(bytes + at)));
  }
}

}  // namespace smem::inline SMEM_BUILD
