// Division of small numbers by one that the launch knows: a multiplication and a shift instead of
// some twenty instructions.
#pragma once

#include <cstdint>

#include "device/platform.h"

namespace smem {

/// Exact for numbers n with n * by < 2^31.
struct Divisor {
  static constexpr int SHIFT = 31;

  uint32_t by, factor;

  Divisor() = default;
  explicit Divisor(int64_t divisor)
      : by(static_cast<uint32_t>(divisor)),
        factor(static_cast<uint32_t>((int64_t{1} << SHIFT) / divisor + 1)) {}
};

inline namespace SMEM_BUILD {

struct Division {
  int quotient, rest;
};

__device__ __forceinline__ Division divide(int number, const Divisor& divisor) {
  const auto quotient = static_cast<uint32_t>(
      uint64_t{static_cast<uint32_t>(number)} * divisor.factor >> Divisor::SHIFT);
  return {static_cast<int>(quotient),
          static_cast<int>(static_cast<uint32_t>(number) - quotient * divisor.by)};
}

}  // namespace SMEM_BUILD
}  // namespace smem
