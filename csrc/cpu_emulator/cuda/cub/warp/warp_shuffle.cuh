// What CUB's stand-ins share: operators, shuffles of types of any size, and memory that is not
// constructed.
#pragma once

#include <stddef.h>
#include <string.h>

#include "../../math_functions.h"
#include "../../warp_functions.h"

namespace cub {

struct Sum {
  template <typename A, typename B>
  SMEM_MATH auto operator()(const A& a, const B& b) const {
    return a + b;
  }
};
struct Max {
  template <typename T>
  SMEM_MATH T operator()(const T& a, const T& b) const {
    return a < b ? b : a;
  }
};
struct Min {
  template <typename T>
  SMEM_MATH T operator()(const T& a, const T& b) const {
    return b < a ? b : a;
  }
};

template <typename Key_, typename Value_>
struct KeyValuePair {
  using Key = Key_;
  using Value = Value_;
  Key key;
  Value value;
  KeyValuePair() = default;
  SMEM_MATH KeyValuePair(const Key& k, const Value& v) : key(k), value(v) {}
};

/// Of equal values the first key counts.
struct ArgMax {
  template <typename Pair>
  SMEM_MATH Pair operator()(const Pair& a, const Pair& b) const {
    return b.value > a.value || (a.value == b.value && b.key < a.key) ? b : a;
  }
};
struct ArgMin {
  template <typename Pair>
  SMEM_MATH Pair operator()(const Pair& a, const Pair& b) const {
    return b.value < a.value || (a.value == b.value && b.key < a.key) ? b : a;
  }
};

/// Shuffles a value of any size, 8 bytes at a time, among the first `lanes` of the warp's.
template <typename T>
SMEM_MATH T smem_shuffle_any(unsigned mask, const T& value, unsigned source) {
  constexpr size_t WORDS = (sizeof(T) + 7) / 8;
  uint64_t words[WORDS] = {};
  __builtin_memcpy(words, static_cast<const void*>(&value), sizeof(T));
  constexpr int BYTES = sizeof(T) < 8 ? sizeof(T) : 8;
  for (size_t i = 0; i < WORDS; ++i) words[i] = smem_shuffle(mask, words[i], BYTES, source);
  T result = value;
  __builtin_memcpy(static_cast<void*>(&result), words, sizeof(T));
  return result;
}

/// The lanes of the calling thread's group of LANES.
template <int LANES>
SMEM_MATH unsigned smem_group_mask() {
  if constexpr (LANES == 32) {
    return SMEM_ALL_LANES;
  } else {
    return ((1u << LANES) - 1) << (smem_lane() / LANES * LANES);
  }
}

/// Memory for values whose constructors must not run in shared memory.
template <typename T, int COUNT>
struct smem_uninitialized {
  alignas(T) unsigned char bytes[COUNT * sizeof(T)];

  SMEM_MATH T& operator[](int i) { return reinterpret_cast<T*>(bytes)[i]; }
};

}  // namespace cub
