// The leaves that a thread adds vectors of neighbouring elements to.
#pragma once

#include <algorithm>
#include <bit>

#include "device/vector.h"
#include "reduce/reduction_tree.h"
#include "reduce/order_transform.h"

namespace smem::reduce {
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

  __device__ __forceinline__ void add(const Vector<T, VEC>& elements, const Turn<T, Op>& turn) {
    if constexpr (BY_WORDS) {
      const auto words = std::bit_cast<Vector<uint32_t, VEC / 4>>(elements);
#pragma unroll
      for (int w = 0; w < VEC / 4; ++w) {
        leaf[w % COUNT] = add_bytes<T>(words.lane[w], leaf[w % COUNT]);
      }
    } else {
#pragma unroll
      for (int v = 0; v < VEC; ++v) add(v, turn.leaf(elements, v));
    }
  }

  /// As the first elements of all leaves. Leaves them as they are, with no identity before them: of
  /// all that follows, only a sum of negative zeros can tell.
  __device__ __forceinline__ void begin_with(const Vector<T, VEC>& elements,
                                             const Turn<T, Op>& turn) {
    if constexpr (COUNT == VEC) {
#pragma unroll
      for (int v = 0; v < VEC; ++v) leaf[v] = turn.leaf(elements, v);
    } else {
      add(elements, turn);
    }
  }

  /// Adds those from `begin` to before `end` of the VEC neighbours at `from`; reads no others.
  __device__ __forceinline__ void add_some(const T* from, int begin, int end,
                                           const Turn<T, Op>& turn, Site site) {
#pragma unroll
    for (int v = 0; v < VEC; ++v) {
      if (begin <= v && v < end) add(v, turn.leaf(T(load(from + v, site))));
    }
  }

  /// The node above them. Uses them up.
  __device__ __forceinline__ Leaf<T> node() { return node_above<Op>(leaf); }

 private:
  __device__ __forceinline__ void add(int v, Leaf<T> element) {
    leaf[v % COUNT] = Op::combine(leaf[v % COUNT], element);
  }
};

/// The nodes above VEC leaves each of a warp's lane, in N runs 32 VEC apart. Of each the first leaf
/// lies in slot `first` % VEC, the last ones in the next lane's first slots. A level whose pairs
/// begin at an odd slot takes the last one's second half from there: a shuffle a level, where
/// leaves that moved into place took VEC - 1. Uses the leaves up.
template <typename T, typename Op, int VEC, int N>
__device__ __forceinline__ void nodes_from(Leaves<T, Op, VEC> (&leaves)[N], int first,
                                           Leaf<T>* nodes) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int width = VEC; width > 1 && !std::is_integral_v<T>; width /= 2) {
    const bool odd = (first & (VEC / width)) != 0;
    Leaf<T> next[N];
#pragma unroll
    for (int j = 0; j < N; ++j) {
      // After the last lane comes the first one's next run.
      const Leaf<T> mine = lane == 0 ? leaves[(j + 1) % N].leaf[0] : leaves[j].leaf[0];
      next[j] = __shfl_sync(ALL_LANES, mine, (lane + 1) % 32);
    }
#pragma unroll
    for (int j = 0; j < N; ++j) {
      Leaf<T>* const leaf = leaves[j].leaf;
#pragma unroll
      for (int i = 0; i < width; i += 2) {
        const Leaf<T> after = i + 2 < width ? leaf[(i + 2) % VEC] : next[j];
        const Leaf<T> second = leaf[i + 1], other = odd ? after : leaf[i];
        leaf[i / 2] =
            Op::SYMMETRIC || odd ? Op::combine(second, other) : Op::combine(other, second);
      }
    }
  }
#pragma unroll
  for (int j = 0; j < N; ++j)
    nodes[j] = std::is_integral_v<T> ? leaves[j].node() : leaves[j].leaf[0];
}

}  // namespace SMEM_BUILD
}  // namespace smem::reduce
