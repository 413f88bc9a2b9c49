// Division by a number that the host knows: a multiplication and a shift instead of some thirty
// instructions. Granlund and Montgomery, "Division by Invariant Integers using Multiplication".
#pragma once

#include <cstdint>

#include "device/platform.h"

namespace smem {

/// Divides numbers below 2^31.
struct FastDivmod {
  uint32_t by = 1, multiplier = 1, shift = 0;

  FastDivmod() = default;
  explicit FastDivmod(int64_t divisor) : by(static_cast<uint32_t>(divisor)) {
    for (; (uint64_t{1} << shift) < by; ++shift) {
    }
    multiplier = static_cast<uint32_t>((((uint64_t{1} << shift) - by) << 32) / by + 1);
  }
};

inline namespace SMEM_BUILD {

__device__ __forceinline__ uint32_t quotient(uint32_t number, const FastDivmod& divisor) {
  const auto high = static_cast<uint32_t>(uint64_t{number} * divisor.multiplier >> 32);
  return (high + number) >> divisor.shift;
}

struct Division {
  int quotient, rest;
};

__device__ __forceinline__ Division divide(int number, const FastDivmod& divisor) {
  const uint32_t whole = quotient(static_cast<uint32_t>(number), divisor);
  return {static_cast<int>(whole),
          static_cast<int>(static_cast<uint32_t>(number) - whole * divisor.by)};
}

}  // namespace SMEM_BUILD
}  // namespace smem
