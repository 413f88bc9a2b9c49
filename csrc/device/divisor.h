// Division by a number that the host knows: a multiplication and a shift instead of some thirty
// instructions. Granlund and Montgomery, "Division by Invariant Integers using Multiplication".
#pragma once

#include <cstdint>

#include "device/platform.h"

namespace smem {

/// Divides numbers below 2^31.
struct Divisor {
  uint32_t value = 1, multiplier = 1, shift = 0;

  Divisor() = default;
  explicit Divisor(uint32_t divisor) : value(divisor) {
    while ((uint64_t{1} << shift) < divisor) ++shift;
    multiplier = static_cast<uint32_t>((((uint64_t{1} << shift) - divisor) << 32) / divisor + 1);
  }
};

inline namespace SMEM_BUILD {

__device__ __forceinline__ uint32_t quotient(uint32_t number, const Divisor& divisor) {
  const auto high = static_cast<uint32_t>(uint64_t{number} * divisor.multiplier >> 32);
  return (high + number) >> divisor.shift;
}

}  // namespace SMEM_BUILD
}  // namespace smem
