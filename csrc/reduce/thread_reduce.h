// The thread partials of one thread, to which it adds vectors of neighbouring elements.
#pragma once

#include <algorithm>
#include <bit>

#include "device/vector.h"
#include "reduce/order_transform.h"
#include "reduce/reduction_tree.h"

namespace smem::reduce::inline SMEM_BUILD {

/// acc plus the four bytes of `word`, which are signed if T is.
template <typename T>
__device__ __forceinline__ int32_t dot_add_bytes(uint32_t word, int32_t acc) {
  constexpr uint32_t ONES = 0x01010101;
  if constexpr (std::is_signed_v<T>) {
    return __dp4a(static_cast<int32_t>(word), static_cast<int32_t>(ONES), acc);
  } else {
    return static_cast<int32_t>(__dp4a(word, ONES, static_cast<uint32_t>(acc)));
  }
}

/// One thread partial for each of VEC neighbouring elements. Integers share four, because every
/// order gives the same bits.
template <typename T, typename Op, int VEC>
struct ThreadPartials {
  static constexpr int COUNT = std::is_integral_v<T> ? std::min(VEC, 4) : VEC;
  static constexpr bool PACKED_BYTES = sizeof(T) == 1 && VEC >= 4 && std::is_same_v<Op, Sum>;

  ThreadPartial<T> partial[COUNT];

  __device__ __forceinline__ ThreadPartials() { set_to_identity<Op>(partial); }

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

  /// Starts the thread partials with these elements instead of combining the identity with them.
  /// The result differs only for a sum of negative zeros, for which the caller combines the
  /// identity at the end.
  __device__ __forceinline__ void init(const Vector<T, VEC>& elements,
                                       const OrderTransform<T, Op>& transform) {
    if constexpr (COUNT == VEC) {
#pragma unroll
      for (int v = 0; v < VEC; ++v) partial[v] = transform.apply(elements, v);
    } else {
      add(elements, transform);
    }
  }

  /// Adds elements `begin` to `end` - 1 of the VEC neighbours at `from`, and reads no others.
  __device__ __forceinline__ void add_range(const T* from, int begin, int end,
                                            const OrderTransform<T, Op>& transform) {
#pragma unroll
    for (int v = 0; v < VEC; ++v) {
      if (begin <= v && v < end) add(v, transform.apply(T(from[v])));
    }
  }

  /// The partial above all of them. Overwrites them.
  __device__ __forceinline__ ThreadPartial<T> reduce() { return tree_reduce<Op>(partial); }

 private:
  __device__ __forceinline__ void add(int v, ThreadPartial<T> element) {
    partial[v % COUNT] = Op::combine(partial[v % COUNT], element);
  }
};

/// The partials above VEC thread partials of each lane, where the tile begins at a misaligned
/// element. There are N vectors of thread partials per lane, 32 * VEC apart. The first thread
/// partial of each group of VEC is at position `first` % VEC of a lane's vector, and the last ones
/// are at the first positions of the next lane's vector. On a level whose pairs begin at an odd
/// position, the last pair takes its second partial from the next lane. This costs one shuffle per
/// level; rotating the thread partials into place would cost VEC - 1. Overwrites the thread
/// partials.
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
      // The last lane is followed by the first lane's next vector.
      const ThreadPartial<T> own =
          lane == 0 ? thread_partials[(j + 1) % N].partial[0] : thread_partials[j].partial[0];
      next[j] = __shfl_sync(FULL_WARP_MASK, own, (lane + 1) % 32);
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

}  // namespace smem::reduce::inline SMEM_BUILD
