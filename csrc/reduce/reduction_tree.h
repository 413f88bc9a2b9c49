// The order in which rows and columns combine the elements of an output, which are numbered in the
// order of their addresses (bindings/reduce.cpp). It depends on the number of elements alone. An
// output therefore has the same bits for every kernel, whatever other outputs are computed with it,
// and however its elements are divided over threads, blocks and launches; and, if one dimension is
// reduced, for every memory layout of x.
//
//   element          0    1    2  ...  255    A tile is 2048 consecutive elements. It consists of
//                  256  257  258  ...  511    256 thread partials: number t combines elements t,
//                    :    :    :         :    t + 256, t + 512, ... of the tile in this order,
//                 1792  ...            2047    starting from the operator's identity.
//                    |    |    |         |
//   thread partial   0    1    2  ...  255    The thread partials of all tiles, in order, are the
//                     \  /      \  /          leaves of one binary tree: partial i of a level
//                      \/        \/           combines partials 2i and 2i + 1 of the level below.
//                        ...                  Those past the end are the identity, which does not
//                                             change a bit.
//
// Any 2^k consecutive thread partials that begin at a multiple of 2^k have one partial above them.
// A warp may therefore take a tile and combine its partials by shuffles, a thread may take 8
// neighbouring thread partials of a column, a block may take 2^k of either, and a later launch may
// continue from the partials of the launch before it. All of these give the same bits.
//
// Sums of float32, float16 and bfloat16 are accumulated in float32 up to the partial above 32
// thread partials, and in float64 above it, where there are few additions. At most 8 + 5 additions
// and the final conversion then round to float32. With float32 throughout, the top of the tree
// would cause most of the error; at counts just above a power of two, whose tree is unbalanced, the
// error would exceed torch's (1.2 times torch's at 100 elements).
//
// This order is a promise to the user (docs/reproducibility.md). PARTIALS_PER_TILE,
// ELEMENTS_PER_PARTIAL and FP32_LEVELS define it and must not be tuned; everything in the kernels
// that use them may be.
#pragma once

#include <cstddef>
#include <limits>

#include "device/numeric_types.h"

namespace smem::reduce {

constexpr int PARTIALS_PER_TILE = 256;   ///< thread partials in a tile
constexpr int ELEMENTS_PER_PARTIAL = 8;  ///< elements in a thread partial of the first pass
/// the partial above 2^5 thread partials is the last one in float32
constexpr int FP32_LEVELS = 5;

/// Reductions of 1-byte elements, for which every order gives the same bits, use tiles that are
/// longer by this factor: 16 loads of 16 bytes per lane.
constexpr int tile_length_factor(size_t element_bytes) { return element_bytes == 1 ? 4 : 1; }

inline namespace SMEM_BUILD {

constexpr unsigned FULL_WARP_MASK = 0xffffffffu;

/// The type of a thread partial. Integers of up to 16 bits need no 64-bit additions for this few
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
  static constexpr bool COMMUTATIVE = true;  ///< combine(a, b) and combine(b, a) have the same bits
  static constexpr bool WIDENS = true;       ///< partials above FP32_LEVELS have a wider type

  template <typename Acc>
  __device__ __forceinline__ static constexpr Acc identity() {
    return Acc(0);
  }
  template <typename Acc>
  __device__ __forceinline__ static Acc combine(Acc a, Acc b) {
    return a + b;
  }
};

/// The largest element, or NaN if there is one. Of 0.0 and -0.0 the later one is taken. The minimum
/// is the maximum of the elements that reduce/order_transform.h maps.
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

/// The type of a partial on any level of the tree, for elements of type T.
template <typename Op, typename T>
using Partial = std::conditional_t<Op::WIDENS && std::is_same_v<Accumulator<T>, Accumulator<float>>,
                                   Accumulator<double>, Accumulator<T>>;

template <typename Op, typename Acc, int N>
__device__ __forceinline__ void set_to_identity(Acc (&partials)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) partials[i] = Op::template identity<Acc>();
}

/// The partial above N neighbouring partials; N is a power of two. Overwrites `partials`.
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

/// The partial above the calling lane's partial and the partial of the lane at distance `offset`.
template <typename Op, typename Acc>
__device__ __forceinline__ Acc combine_lanes(Acc own, Acc other, int offset) {
  const bool is_first = Op::COMMUTATIVE || (threadIdx.x & offset) == 0;
  return is_first ? Op::combine(own, other) : Op::combine(other, own);
}

/// The partial above those of `lanes` neighbouring lanes of a warp (a power of two), in each of
/// these lanes. Lanes at a distance below `first` have been combined already. All lanes must call
/// it.
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

/// The same for partials above 2^LEVEL thread partials. Widens them on the level that FP32_LEVELS
/// demands.
template <typename Op, typename T, int LEVEL>
__device__ __forceinline__ Partial<Op, T> warp_reduce_widening(ThreadPartial<T> thread_partials,
                                                               int lanes, int first) {
  static_assert(LEVEL <= FP32_LEVELS, "a lane's partial is below FP32_LEVELS");
  constexpr int FP32_LANES = 1 << (FP32_LEVELS - LEVEL);
  const Accumulator<T> fp32 = warp_reduce<Op>(static_cast<Accumulator<T>>(thread_partials), first,
                                              lanes < FP32_LANES ? lanes : FP32_LANES);
  auto partial = static_cast<Partial<Op, T>>(fp32);
  if (FP32_LANES < 32 && first <= FP32_LANES && FP32_LANES < lanes) {
    // The value that is exchanged still is in float32: one shuffle instead of two.
    const auto other =
        static_cast<Partial<Op, T>>(__shfl_xor_sync(FULL_WARP_MASK, fp32, FP32_LANES % 32));
    partial = combine_lanes<Op>(partial, other, FP32_LANES);
    first = 2 * FP32_LANES;
  }
  return warp_reduce<Op>(partial, first < FP32_LANES ? FP32_LANES : first, lanes);
}

/// A reduce-scatter over N neighbouring lanes, each with N partials: afterwards lane l holds the
/// combination of the lanes' partials number l % N. It takes N - 1 shuffles; a warp_reduce for each
/// partial would take N log2(N). Overwrites `partials`.
template <typename Op, typename Acc, int N>
__device__ __forceinline__ Acc warp_reduce_scatter(Acc (&partials)[N]) {
#pragma unroll
  for (int offset = 1; offset < N; offset *= 2) {
    const bool odd = (threadIdx.x & offset) != 0;
#pragma unroll
    for (int i = 0; i < N / offset; i += 2) {
      const Acc own = odd ? partials[i + 1] : partials[i];
      const Acc theirs = odd ? partials[i] : partials[i + 1];
      partials[i / 2] =
          combine_lanes<Op>(own, __shfl_xor_sync(FULL_WARP_MASK, theirs, offset), offset);
    }
  }
  return partials[0];
}

/// Combines up to 2^LEVELS partials that arrive in sequence, as the tree does. It works like a
/// binary counter, whose digits are the partials that have no right neighbour yet.
template <typename Op, typename Acc, int LEVELS>
struct BinaryCounter {
  Acc pending[LEVELS] = {};

  /// Takes partial `index`. After the last of 2^k partials it returns the partial above all of
  /// them.
  __device__ __forceinline__ Acc push(unsigned index, Acc partial) {
    bool carries = true;
#pragma unroll
    for (int level = 0; level < LEVELS; ++level) {
      if (carries) {
        carries = index >> level & 1;
        if (carries) {
          partial = Op::combine(pending[level], partial);
        } else {
          pending[level] = partial;
        }
      }
    }
    return partial;
  }
};

}  // namespace SMEM_BUILD
}  // namespace smem::reduce
