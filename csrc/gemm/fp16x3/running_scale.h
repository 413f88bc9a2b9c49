// What is known of a column of B while it is split, before all of it has been seen (split_producer.h).
#pragma once

#include "gemm/fp16x3/scale.h"

namespace smem::gemm::fp16x3 {
inline namespace SMEM_BUILD {

using split::Extremes;

/// What is known of a column before its end.
struct SoFar {
  /// Powers of two with which an element and its lo are finite and normal numbers.
  static constexpr int LEAST_UP = -100, MOST_UP = 112;

  uint32_t largest = 0;                 ///< magnitude
  uint32_t twice_least_less_one = ~0u;  ///< of those, not zero, that were split before it is known
  int up = MOST_UP;
  split::Mark mark = split::CARRIED;
  bool is_known = false;  ///< largest and mark are those of the whole column

  /// After `largest` has grown.
  __device__ __forceinline__ void scale_again() {
    up = min(max(split::TOP - split::binade_of(largest), LEAST_UP), MOST_UP);
  }

  /// Whether an element, twice its magnitude less one, is in the last binade or below, or would be
  /// if the largest grew to GROWTH binades more: from 128 normally distributed elements to 30,000
  /// it does so once.
  __device__ __forceinline__ bool is_doubtful(uint32_t twice_less_one) const {
    constexpr int GROWTH = 1, FIRST_SAFE = split::BIAS + split::BOTTOM + 1 + GROWTH;
    static_assert(FIRST_SAFE - MOST_UP > 0, "a normal number");
    return twice_less_one < static_cast<uint32_t>(FIRST_SAFE - up) << (split::MANTISSA_BITS + 1);
  }

  /// `rest`: of the elements that have not been split yet.
  __device__ __forceinline__ void learn(Extremes rest) {
    is_known = true;
    largest = rest.largest = max(largest, rest.largest);
    mark = split::scale_of(rest).mark;
    scale_again();
  }

  /// Whether all that has been split by `up`, and what was before, is as scale.h has it.
  __device__ __forceinline__ bool holds() const {
    if (largest == 0 || mark == split::EXACT) return true;
    const uint32_t least = twice_least_less_one / 2 + 1;
    return split::TOP - split::binade_of(largest) == up &&
           split::binade_of(least) + up > split::BOTTOM;
  }
};

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::fp16x3
