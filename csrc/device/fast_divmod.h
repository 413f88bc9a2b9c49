// Division by a divisor that the host knows: a multiplication and a shift instead of about thirty
// instructions. As cutlass::FastDivmod. Granlund and Montgomery, "Division by Invariant Integers
// using Multiplication".
#pragma once

#include <cstdint>

#include "device/platform.h"

namespace smem {

/// A divisor, for dividends below 2^31.
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

__device__ __forceinline__ uint32_t quotient(uint32_t dividend, const FastDivmod& divisor) {
  const auto high = static_cast<uint32_t>(uint64_t{dividend} * divisor.multiplier >> 32);
  return (high + dividend) >> divisor.shift;
}

struct Division {
  int quotient, rest;  ///< rest: the remainder
};

__device__ __forceinline__ Division divide(int dividend, const FastDivmod& divisor) {
  const uint32_t whole = quotient(static_cast<uint32_t>(dividend), divisor);
  return {static_cast<int>(whole),
          static_cast<int>(static_cast<uint32_t>(dividend) - whole * divisor.by)};
}

}  // namespace SMEM_BUILD
}  // namespace smem
