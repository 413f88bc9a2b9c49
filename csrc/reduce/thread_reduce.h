// The thread_partials that a thread adds vectors of neighbouring elements to.
#pragma once

#include <algorithm>
#include <bit>

#include "device/vector.h"
#include "reduce/order_transform.h"
#include "reduce/reduction_tree.h"

namespace smem::reduce {
inline namespace SMEM_BUILD {

/// acc plus the four bytes of `word`, each of them signed or not as T is.
template <typename T>
__device__ __forceinline__ int32_t dot_add_bytes(uint32_t word, int32_t acc) {
  constexpr uint32_t ONES = 0x01010101;
  if constexpr (std::is_signed_v<T>) {
    return __dp4a(static_cast<int32_t>(word), static_cast<int32_t>(ONES), acc);
  } else {
    return static_cast<int32_t>(__dp4a(word, ONES, static_cast<uint32_t>(acc)));
  }
}

/// A thread_partial for each of VEC neighbours. Integers, in any order the same, share four.
template <typename T, typename Op, int VEC>
struct ThreadPartials {
  static constexpr int COUNT = std::is_integral_v<T> ? std::min(VEC, 4) : VEC;
  static constexpr bool PACKED_BYTES = sizeof(T) == 1 && VEC >= 4 && std::is_same_v<Op, Sum>;

  ThreadPartial<T> partial[COUNT];

  __device__ __forceinline__ ThreadPartials() {
#pragma unroll
    for (int l = 0; l < COUNT; ++l) partial[l] = Op::template identity<ThreadPartial<T>>();
  }

  __device__ __forceinline__ void add(const Vector<T, VEC>& elements,
                                      const OrderTransform<T, Op>& transform) {
    if constexpr (PACKED_BYTES) {
      const auto words = std::bit_cast<Vector<uint32_t, VEC / 4>>(elements);
#pragma unroll
      for (int w = 0; w < VEC / 4; ++w) {
        partial[w % COUNT] = dot_add_bytes<T>(words.lane[w], partial[w % COUNT]);
      }
    } else {
#pragma unroll
      for (int v = 0; v < VEC; ++v) add(v, transform.apply(elements, v));
    }
  }

  /// As the first elements of all thread_partials. ThreadPartials them as they are, with no
  /// identity before them: of all that follows, only a sum of negative zeros can tell.
  __device__ __forceinline__ void init(const Vector<T, VEC>& elements,
                                       const OrderTransform<T, Op>& transform) {
    if constexpr (COUNT == VEC) {
#pragma unroll
      for (int v = 0; v < VEC; ++v) partial[v] = transform.apply(elements, v);
    } else {
      add(elements, transform);
    }
  }

  /// Adds those from `begin` to before `end` of the VEC neighbours at `from`; reads no others.
  __device__ __forceinline__ void add_range(const T* from, int begin, int end,
                                            const OrderTransform<T, Op>& transform, Site site) {
#pragma unroll
    for (int v = 0; v < VEC; ++v) {
      if (begin <= v && v < end) add(v, transform.apply(T(load(from + v, site))));
    }
  }

  /// The partial above them. Uses them up.
  __device__ __forceinline__ ThreadPartial<T> reduce() { return tree_reduce<Op>(partial); }

 private:
  __device__ __forceinline__ void add(int v, ThreadPartial<T> element) {
    partial[v % COUNT] = Op::combine(partial[v % COUNT], element);
  }
};

/// The partials above VEC thread_partials each of a warp's lane, in N runs 32 VEC apart. Of each
/// the first thread_partial lies in slot `first` % VEC, the last ones in the next lane's first
/// slots. A level whose pairs begin at an odd slot takes the last one's second half from there: a
/// shuffle a level, where thread_partials that moved into place took VEC - 1. Uses the
/// thread_partials up.
template <typename T, typename Op, int VEC, int N>
__device__ __forceinline__ void reduce_unaligned(ThreadPartials<T, Op, VEC> (&thread_partials)[N],
                                                 int first, ThreadPartial<T>* partials) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int width = VEC; width > 1 && !std::is_integral_v<T>; width /= 2) {
    const bool odd = (first & (VEC / width)) != 0;
    ThreadPartial<T> next[N];
#pragma unroll
    for (int j = 0; j < N; ++j) {
      // After the last lane comes the first one's next run.
      const ThreadPartial<T> mine =
          lane == 0 ? thread_partials[(j + 1) % N].partial[0] : thread_partials[j].partial[0];
      next[j] = __shfl_sync(FULL_WARP_MASK, mine, (lane + 1) % 32);
    }
#pragma unroll
    for (int j = 0; j < N; ++j) {
      ThreadPartial<T>* const partial = thread_partials[j].partial;
#pragma unroll
      for (int i = 0; i < width; i += 2) {
        const ThreadPartial<T> after = i + 2 < width ? partial[(i + 2) % VEC] : next[j];
        const ThreadPartial<T> second = partial[i + 1], other = odd ? after : partial[i];
        partial[i / 2] =
            Op::COMMUTATIVE || odd ? Op::combine(second, other) : Op::combine(other, second);
      }
    }
  }
#pragma unroll
  for (int j = 0; j < N; ++j)
    partials[j] =
        std::is_integral_v<T> ? thread_partials[j].reduce() : thread_partials[j].partial[0];
}

}  // namespace SMEM_BUILD
}  // namespace smem::reduce
