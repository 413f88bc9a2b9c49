// What the lanes of a warp do together: __syncwarp, shuffles, votes, match and reductions.
#pragma once

#include <string.h>

#include "emulator_api.h"

#define SMEM_ALL_LANES 0xffffffffu
#define SMEM_INLINE inline __attribute__((always_inline))

#define smem_lane() (smem_thread_number() % 32)

// A macro, so that the emulator is told the line in the kernel.
#define SMEM_SYNCWARP(mask, ...) smem_syncwarp(mask)
#define __syncwarp(...) SMEM_SYNCWARP(__VA_ARGS__ __VA_OPT__(, ) SMEM_ALL_LANES)

#define __activemask() smem_activemask()

template <typename T>
SMEM_INLINE T smem_shuffle_value(unsigned mask, T value, unsigned source) {
  static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  bits = smem_shuffle(mask, bits, sizeof(T), source);
  __builtin_memcpy(static_cast<void*>(&value), &bits, sizeof(T));
  return value;
}

// The lanes of a warp form segments of `width`; a lane whose source lies outside its segment gets
// its own value (CUDA C++ Programming Guide, "Warp Shuffle Functions"). Of a distance or a mask
// of lanes the last five bits count (PTX ISA, "shfl.sync").

template <typename T>
SMEM_INLINE T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  const int first = static_cast<int>(smem_lane()) & -width;
  return smem_shuffle_value(mask, value, first + (source & (width - 1)));
}

template <typename T>
SMEM_INLINE T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const int lane = smem_lane(), source = lane - static_cast<int>(delta % 32);
  return smem_shuffle_value(mask, value, source < (lane & -width) ? lane : source);
}

template <typename T>
SMEM_INLINE T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const int lane = smem_lane(), source = lane + static_cast<int>(delta % 32);
  return smem_shuffle_value(mask, value, source >= (lane & -width) + width ? lane : source);
}

template <typename T>
SMEM_INLINE T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32) {
  const int lane = smem_lane(), source = lane ^ (lane_mask & 31);
  return smem_shuffle_value(mask, value, source >= (lane & -width) + width ? lane : source);
}

template <typename T, typename Visit>
SMEM_UNSEEN __attribute__((noinline)) inline void smem_visit_lanes(unsigned lanes,
                                                                   const uint64_t* all,
                                                                   Visit& visit) {
  for (; lanes; lanes &= lanes - 1) {
    const int lane = __builtin_ctz(lanes);
    T theirs;
    __builtin_memcpy(static_cast<void*>(&theirs), &all[lane], sizeof(T));
    visit(lane, theirs);
  }
}

/// Calls visit(lane, its value) for the lanes that took part.
template <typename T, typename Visit>
SMEM_INLINE void smem_for_each_lane(unsigned mask, T value, Visit visit) {
  static_assert(sizeof(T) <= 8, "lanes exchange at most 8 bytes");
  uint64_t bits = 0, all[32];
  __builtin_memcpy(&bits, &value, sizeof(T));
  const unsigned lanes = smem_exchange(mask, bits, all);
  smem_visit_lanes<T>(lanes, all, visit);
}

SMEM_INLINE unsigned __ballot_sync(unsigned mask, int predicate) {
  unsigned ballot = 0;
  smem_for_each_lane(mask, predicate != 0, [&](int lane, bool set) SMEM_UNSEEN {
    ballot |= static_cast<unsigned>(set) << lane;
  });
  return ballot;
}

SMEM_INLINE int __any_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate) != 0;
}

SMEM_INLINE int __all_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate == 0) == 0;
}

template <typename T>
SMEM_INLINE unsigned __match_any_sync(unsigned mask, T value) {
  unsigned equal = 0;
  smem_for_each_lane(mask, value, [&](int lane, T theirs) SMEM_UNSEEN {
    equal |= static_cast<unsigned>(memcmp(&theirs, &value, sizeof(T)) == 0) << lane;
  });
  return equal;
}

template <typename T>
SMEM_INLINE unsigned __match_all_sync(unsigned mask, T value, int* all_equal) {
  const unsigned equal = __match_any_sync(mask, value);
  *all_equal = (equal & mask) == mask;
  return *all_equal ? mask : 0;
}

template <typename T, typename Combine>
SMEM_INLINE T smem_reduce_lanes(unsigned mask, T value, Combine combine) {
  T result{};
  bool first = true;
  smem_for_each_lane(mask, value, [&](int, T theirs) SMEM_UNSEEN {
    result = first ? theirs : combine(result, theirs);
    first = false;
  });
  return result;
}

template <typename T>
SMEM_INLINE T __reduce_add_sync(unsigned mask, T value) {
  return smem_reduce_lanes(mask, value, [](T a, T b) SMEM_UNSEEN { return T(a + b); });
}
template <typename T>
SMEM_INLINE T __reduce_min_sync(unsigned mask, T value) {
  return smem_reduce_lanes(mask, value, [](T a, T b) SMEM_UNSEEN { return b < a ? b : a; });
}
template <typename T>
SMEM_INLINE T __reduce_max_sync(unsigned mask, T value) {
  return smem_reduce_lanes(mask, value, [](T a, T b) SMEM_UNSEEN { return a < b ? b : a; });
}
SMEM_INLINE unsigned __reduce_and_sync(unsigned mask, unsigned value) {
  return smem_reduce_lanes(mask, value, [](unsigned a, unsigned b) SMEM_UNSEEN { return a & b; });
}
SMEM_INLINE unsigned __reduce_or_sync(unsigned mask, unsigned value) {
  return smem_reduce_lanes(mask, value, [](unsigned a, unsigned b) SMEM_UNSEEN { return a | b; });
}
SMEM_INLINE unsigned __reduce_xor_sync(unsigned mask, unsigned value) {
  return smem_reduce_lanes(mask, value, [](unsigned a, unsigned b) SMEM_UNSEEN { return a ^ b; });
}
