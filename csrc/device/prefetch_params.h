// Kernel parameters, which no cache has when a kernel begins.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/platform.h"

namespace smem {
inline namespace SMEM_BUILD {

/// Has all of a parameter's lines fetched at the same time: each costs some 300 cycles where it is
/// waited for at its first use.
template <typename Parameter>
__device__ __forceinline__ void prefetch_param(const Parameter& parameter) {
  constexpr size_t LINE = 64;
  const auto* bytes = reinterpret_cast<const unsigned char*>(&parameter);
#pragma unroll
  for (size_t at = 0; at < sizeof(Parameter); at += LINE) {
    asm volatile("" ::"r"(*reinterpret_cast<const uint32_t*>(bytes + at)));
  }
}

}  // namespace SMEM_BUILD
}  // namespace smem
