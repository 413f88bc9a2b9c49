// The leaves that a thread adds vectors of neighbouring elements to.
#pragma once

#include <algorithm>
#include <bit>

#include "device/vector.h"
#include "sum/order.h"

namespace smem::sum {
inline namespace SMEM_BUILD {

/// acc plus the four bytes of `word`, each of them signed or not as T is.
template <typename T>
__device__ __forceinline__ int32_t add_bytes(uint32_t word, int32_t acc) {
  constexpr uint32_t ONES = 0x01010101;
  if constexpr (std::is_signed_v<T>) {
    return __dp4a(static_cast<int32_t>(word), static_cast<int32_t>(ONES), acc);
  } else {
    return static_cast<int32_t>(__dp4a(word, ONES, static_cast<uint32_t>(acc)));
  }
}

/// What is added for a vector that does not exist, and changes no bit. Where some of the vectors
/// that are under way are added on a condition, nvcc takes all of them apart as they come, and so
/// waits for one after the other.
template <typename T, typename Op, int W>
__device__ __forceinline__ Loaded<T, W> vector_of_identity() {
  Vector<T, W> vector;
#pragma unroll
  for (int c = 0; c < W; ++c) {
    if constexpr (std::is_integral_v<T>) {
      vector.lane[c] = Op::template identity<T>();
    } else {
      vector.lane[c] = from_accumulator<T>(Op::template identity<Accumulator<T>>());
    }
  }
  return std::bit_cast<Loaded<T, W>>(vector);
}

/// A leaf for each of VEC neighbours. Integers, in any order the same, share four.
template <typename T, typename Op, int VEC>
struct Leaves {
  static constexpr int COUNT = std::is_integral_v<T> ? std::min(VEC, 4) : VEC;
  static constexpr bool BY_WORDS = sizeof(T) == 1 && VEC >= 4 && std::is_same_v<Op, Sum>;

  Leaf<T> leaf[COUNT];

  __device__ __forceinline__ Leaves() {
#pragma unroll
    for (int l = 0; l < COUNT; ++l) leaf[l] = Op::template identity<Leaf<T>>();
  }

  __device__ __forceinline__ void add(const Vector<T, VEC>& elements) {
    if constexpr (BY_WORDS) {
      const auto words = std::bit_cast<Vector<uint32_t, VEC / 4>>(elements);
#pragma unroll
      for (int w = 0; w < VEC / 4; ++w) {
        leaf[w % COUNT] = add_bytes<T>(words.lane[w], leaf[w % COUNT]);
      }
    } else {
#pragma unroll
      for (int v = 0; v < VEC; ++v) add(v, elements.lane[v]);
    }
  }

  /// As the first elements of all leaves. Leaves them as they are, with no identity before them: of
  /// all that follows, only a sum of negative zeros can tell.
  __device__ __forceinline__ void begin_with(const Vector<T, VEC>& elements) {
    if constexpr (COUNT == VEC) {
#pragma unroll
      for (int v = 0; v < VEC; ++v) leaf[v] = to_leaf(elements.lane[v]);
    } else {
      add(elements);
    }
  }

  /// Adds those from `begin` to before `end` of the VEC neighbours at `from`; reads no others.
  __device__ __forceinline__ void add_some(const T* from, int begin, int end, Site site) {
#pragma unroll
    for (int v = 0; v < VEC; ++v) {
      if (begin <= v && v < end) add(v, load(from + v, site));
    }
  }

  /// The node above them. Uses them up.
  __device__ __forceinline__ Leaf<T> node() { return node_above<Op>(leaf); }

 private:
  __device__ __forceinline__ void add(int v, T element) {
    leaf[v % COUNT] = Op::combine(leaf[v % COUNT], to_leaf(element));
  }
};

}  // namespace SMEM_BUILD
}  // namespace smem::sum
