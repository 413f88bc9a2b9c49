// The order in which rows and columns combine the elements of an output. It is a function of their
// number alone, so an output has the same bits however x lies in memory, whichever kernel runs,
// whatever stands beside it, and however the work is divided.
//
//   element   0   1   2  ...  255      a thread_partial is a elements_per_partial of
//   ELEMENTS_PER_PARTIAL elements, PARTIALS_PER_TILE apart:
//           256 257 258  ...  511      thread_partial l of a tile takes l, l + 256, l + 512, ... in
//           transform,
//            :   :   :         :       starting from the operator's identity.
//          1792 ...           2047     A tile is 2048 elements, 256 thread_partials.
//   thread_partial      0   1   2  ...  255
//              \ /     \ /             All thread_partials, tile after tile, are the
//              thread_partials of one
//               \       /              binary tree: partial i of a level is partials 2i and 2i + 1
//               of the
//                \     /               level below. ThreadPartials that do not exist are the
//                identity, which
//                  ...                 changes no bit.
//
// Any aligned run of 2^k thread_partials is one partial. So a warp may take a tile and shuffle, a
// thread may take 8 neighbouring thread_partials of a column, a block any 2^k such runs, and a
// second launch may go on where the first stopped: nobody sees a difference.
//
// Sums of float32 and less are added in float32 up to a partial above 32 thread_partials, and in
// float64 from there on, where additions are few: at most 8 + 5 roundings of partial sums and the
// last one. In float32 throughout, the root and the partials below it would make most of the error,
// and more than torch's where the count is just above a power of two, whose tree is lopsided (1.2
// times at 100).
#pragma once

#include <cstddef>
#include <limits>

#include "device/numeric_types.h"

namespace smem::reduce {

constexpr int PARTIALS_PER_TILE = 256;  ///< thread_partials of a tile
constexpr int ELEMENTS_PER_PARTIAL =
    8;  ///< elements of a thread_partial; 1 where the elements are partials already
constexpr int FP32_LEVELS = 5;  ///< partials above 2^5 thread_partials are the last ones in float32

/// Sums and extrema of bytes, which any order thread_partials the same, take tiles so many times as
/// long: 16 loads of 16 bytes a lane.
constexpr int tile_length_factor(size_t element_bytes) { return element_bytes == 1 ? 4 : 1; }

inline namespace SMEM_BUILD {

constexpr unsigned FULL_WARP_MASK = 0xffffffffu;

/// The type of a thread_partial: integers of up to 16 bits need no 64-bit additions for so few
/// elements.
template <typename T>
using ThreadPartial =
    std::conditional_t<std::is_integral_v<T> && sizeof(T) <= 2, int32_t, Accumulator<T>>;

template <typename T>
__device__ __forceinline__ ThreadPartial<T> to_thread_partial(T value) {
  if constexpr (std::is_same_v<ThreadPartial<T>, int32_t>) {
    return value;
  } else {
    return to_accumulator(value);
  }
}

struct Sum {
  static constexpr bool COMMUTATIVE = true;  ///< combine(a, b) has the bits of combine(b, a)
  static constexpr bool WIDENS = true;       ///< partials above FP32_LEVELS have more bits

  template <typename Acc>
  __device__ __forceinline__ static constexpr Acc identity() {
    return Acc(0);
  }
  template <typename Acc>
  __device__ __forceinline__ static Acc combine(Acc a, Acc b) {
    return a + b;
  }
};

/// The largest, or NaN where there is one. Of 0.0 and -0.0 the later. The smallest, too, of what
/// reduce/order_transform.h makes of the elements.
struct Max {
  static constexpr bool COMMUTATIVE = false;
  static constexpr bool WIDENS = false;

  template <typename Acc>
  __device__ __forceinline__ static constexpr Acc identity() {
    if constexpr (std::is_integral_v<Acc>) {
      return std::numeric_limits<Acc>::lowest();
    } else {
      return Acc(-INFINITY);
    }
  }
  template <typename Acc>
  __device__ __forceinline__ static Acc combine(Acc a, Acc b) {
    const auto x = number_of(a), y = number_of(b);
    return x > y || x != x ? a : b;
  }
};

/// The type of a partial anywhere in the tree, for elements of type T.
template <typename Op, typename T>
using Partial = std::conditional_t<Op::WIDENS && std::is_same_v<Accumulator<T>, Accumulator<float>>,
                                   Accumulator<double>, Accumulator<T>>;

/// The partial above N neighbouring partials; N is a power of two. Uses `partials` up.
template <typename Op, typename Acc, int N>
__device__ __forceinline__ Acc tree_reduce(Acc (&partials)[N]) {
#pragma unroll
  for (int stride = 1; stride < N; stride *= 2) {
#pragma unroll
    for (int i = 0; i < N; i += 2 * stride)
      partials[i] = Op::combine(partials[i], partials[i + stride]);
  }
  return partials[0];
}

/// The partial above the calling lane's partial and that of the lane `offset` away.
template <typename Op, typename Acc>
__device__ __forceinline__ Acc combine_lanes(Acc mine, Acc other, int offset) {
  const bool is_first = Op::COMMUTATIVE || (threadIdx.x & offset) == 0;
  return is_first ? Op::combine(mine, other) : Op::combine(other, mine);
}

/// The partial above the partials of `lanes` neighbouring lanes of a warp, a power of two, in each
/// of them; lanes nearer than `first` have been combined already. Every lane must take part.
template <typename Op, typename Acc>
__device__ __forceinline__ Acc warp_reduce(Acc partial, int first = 1, int lanes = 32) {
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    if (first <= offset && offset < lanes) {
      partial =
          combine_lanes<Op>(partial, __shfl_xor_sync(FULL_WARP_MASK, partial, offset), offset);
    }
  }
  return partial;
}

/// The same where the lanes' partials are above 2^LEVEL thread_partials: widens them on the way.
template <typename Op, typename T, int LEVEL>
__device__ __forceinline__ Partial<Op, T> warp_reduce_widening(ThreadPartial<T> thread_partials,
                                                               int lanes, int first) {
  static_assert(LEVEL <= FP32_LEVELS, "a lane's partial is narrow");
  constexpr int NARROW = 1 << (FP32_LEVELS - LEVEL);
  const Accumulator<T> narrow = warp_reduce<Op>(static_cast<Accumulator<T>>(thread_partials), first,
                                                lanes < NARROW ? lanes : NARROW);
  auto partial = static_cast<Partial<Op, T>>(narrow);
  if (NARROW < 32 && first <= NARROW && NARROW < lanes) {
    // What is sent is narrow still: one shuffle instead of two.
    const auto other =
        static_cast<Partial<Op, T>>(__shfl_xor_sync(FULL_WARP_MASK, narrow, NARROW % 32));
    partial = combine_lanes<Op>(partial, other, NARROW);
    first = 2 * NARROW;
  }
  return warp_reduce<Op>(partial, first < NARROW ? NARROW : first, lanes);
}

/// N partials a lane, each to be combined with those of N neighbouring lanes: lane l is left with
/// the partial of number l % N. N - 1 shuffles, where one number after the other takes N log2(N).
/// Uses `partials` up.
template <typename Op, typename Acc, int N>
__device__ __forceinline__ Acc warp_reduce_scatter(Acc (&partials)[N]) {
#pragma unroll
  for (int offset = 1; offset < N; offset *= 2) {
    const bool odd = (threadIdx.x & offset) != 0;
#pragma unroll
    for (int i = 0; i < N / offset; i += 2) {
      const Acc mine = odd ? partials[i + 1] : partials[i],
                yours = odd ? partials[i] : partials[i + 1];
      partials[i / 2] =
          combine_lanes<Op>(mine, __shfl_xor_sync(FULL_WARP_MASK, yours, offset), offset);
    }
  }
  return partials[0];
}

/// Combines partials that come one after the other, up to 2^LEVELS of them, as their tree does: a
/// binary counter, whose digits are the partials that still wait for their neighbours.
template <typename Op, typename Acc, int LEVELS>
struct BinaryCounter {
  Acc waiting[LEVELS] = {};

  /// Takes partial `index`; after the last of 2^k partials this is the partial above all of them.
  __device__ __forceinline__ Acc push(unsigned index, Acc partial) {
    bool carries = true;
#pragma unroll
    for (int level = 0; level < LEVELS; ++level) {
      if (carries) {
        carries = index >> level & 1;
        if (carries) {
          partial = Op::combine(waiting[level], partial);
        } else {
          waiting[level] = partial;
        }
      }
    }
    return partial;
  }
};

}  // namespace SMEM_BUILD
}  // namespace smem::reduce
