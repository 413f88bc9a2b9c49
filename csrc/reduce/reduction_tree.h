// The order in which rows and columns combine the elements of an output. It is a function of their
// number alone, so an output has the same bits however x lies in memory, whichever kernel runs,
// whatever stands beside it, and however the work is divided.
//
//   element   0   1   2  ...  255      a leaf is a chain of CHAIN elements, LANES apart:
//           256 257 258  ...  511      leaf l of a segment takes l, l + 256, l + 512, ... in turn,
//            :   :   :         :       starting from the operator's identity.
//          1792 ...           2047     A segment is 2048 elements, 256 leaves.
//   leaf      0   1   2  ...  255
//              \ /     \ /             All leaves, segment after segment, are the leaves of one
//               \       /              binary tree: node i of a level is nodes 2i and 2i + 1 of the
//                \     /               level below. Leaves that do not exist are the identity,
//                which
//                  ...                 changes no bit.
//
// Any aligned run of 2^k leaves is one node. So a warp may take a segment and shuffle, a thread may
// take 8 neighbouring leaves of a column, a block any 2^k such runs, and a second launch may go on
// where the first stopped: nobody sees a difference.
//
// Sums of float32 and less are added in float32 up to a node above 32 leaves, and in float64 from
// there on, where additions are few: at most 8 + 5 roundings of partial sums and the last one. In
// float32 throughout, the root and the nodes below it would make most of the error, and more than
// torch's where the count is just above a power of two, whose tree is lopsided (1.2 times at 100).
#pragma once

#include <cstddef>
#include <limits>

#include "device/numeric_types.h"

namespace smem::reduce {

constexpr int LANES = 256;        ///< leaves of a segment
constexpr int CHAIN = 8;          ///< elements of a leaf; 1 where the elements are nodes already
constexpr int NARROW_LEVELS = 5;  ///< nodes above 2^5 leaves are the last ones in float32

/// Sums and extrema of bytes, which any order leaves the same, take segments so many times as long:
/// 16 loads of 16 bytes a lane.
constexpr int span_of(size_t element_bytes) { return element_bytes == 1 ? 4 : 1; }

inline namespace SMEM_BUILD {

constexpr unsigned ALL_LANES = 0xffffffffu;

/// The type of a leaf: integers of up to 16 bits need no 64-bit additions for so few elements.
template <typename T>
using Leaf = std::conditional_t<std::is_integral_v<T> && sizeof(T) <= 2, int32_t, Accumulator<T>>;

template <typename T>
__device__ __forceinline__ Leaf<T> to_leaf(T value) {
  if constexpr (std::is_same_v<Leaf<T>, int32_t>) {
    return value;
  } else {
    return to_accumulator(value);
  }
}

struct Sum {
  static constexpr bool SYMMETRIC = true;  ///< combine(a, b) has the bits of combine(b, a)
  static constexpr bool WIDENS = true;     ///< nodes above NARROW_LEVELS have more bits

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
  static constexpr bool SYMMETRIC = false;
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

/// The type of a node anywhere in the tree, for elements of type T.
template <typename Op, typename T>
using Node = std::conditional_t<Op::WIDENS && std::is_same_v<Accumulator<T>, Accumulator<float>>,
                                Accumulator<double>, Accumulator<T>>;

/// The node above N neighbouring nodes; N is a power of two. Uses `nodes` up.
template <typename Op, typename Acc, int N>
__device__ __forceinline__ Acc node_above(Acc (&nodes)[N]) {
#pragma unroll
  for (int stride = 1; stride < N; stride *= 2) {
#pragma unroll
    for (int i = 0; i < N; i += 2 * stride) nodes[i] = Op::combine(nodes[i], nodes[i + stride]);
  }
  return nodes[0];
}

/// The node above the calling lane's node and that of the lane `offset` away.
template <typename Op, typename Acc>
__device__ __forceinline__ Acc combine_lanes(Acc mine, Acc other, int offset) {
  const bool is_first = Op::SYMMETRIC || (threadIdx.x & offset) == 0;
  return is_first ? Op::combine(mine, other) : Op::combine(other, mine);
}

/// The node above the nodes of `lanes` neighbouring lanes of a warp, a power of two, in each of
/// them; lanes nearer than `first` have been combined already. Every lane must take part.
template <typename Op, typename Acc>
__device__ __forceinline__ Acc node_above_lanes(Acc node, int first = 1, int lanes = 32) {
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    if (first <= offset && offset < lanes) {
      node = combine_lanes<Op>(node, __shfl_xor_sync(ALL_LANES, node, offset), offset);
    }
  }
  return node;
}

/// The same where the lanes' nodes are above 2^LEVEL leaves: widens them on the way.
template <typename Op, typename T, int LEVEL>
__device__ __forceinline__ Node<Op, T> node_above_row(Leaf<T> leaves, int lanes, int first) {
  static_assert(LEVEL <= NARROW_LEVELS, "a lane's node is narrow");
  constexpr int NARROW = 1 << (NARROW_LEVELS - LEVEL);
  const Accumulator<T> narrow = node_above_lanes<Op>(static_cast<Accumulator<T>>(leaves), first,
                                                     lanes < NARROW ? lanes : NARROW);
  auto node = static_cast<Node<Op, T>>(narrow);
  if (NARROW < 32 && first <= NARROW && NARROW < lanes) {
    // What is sent is narrow still: one shuffle instead of two.
    const auto other = static_cast<Node<Op, T>>(__shfl_xor_sync(ALL_LANES, narrow, NARROW % 32));
    node = combine_lanes<Op>(node, other, NARROW);
    first = 2 * NARROW;
  }
  return node_above_lanes<Op>(node, first < NARROW ? NARROW : first, lanes);
}

/// N nodes a lane, each to be combined with those of N neighbouring lanes: lane l is left with the
/// node of number l % N. N - 1 shuffles, where one number after the other takes N log2(N). Uses
/// `nodes` up.
template <typename Op, typename Acc, int N>
__device__ __forceinline__ Acc scatter_over_lanes(Acc (&nodes)[N]) {
#pragma unroll
  for (int offset = 1; offset < N; offset *= 2) {
    const bool odd = (threadIdx.x & offset) != 0;
#pragma unroll
    for (int i = 0; i < N / offset; i += 2) {
      const Acc mine = odd ? nodes[i + 1] : nodes[i], yours = odd ? nodes[i] : nodes[i + 1];
      nodes[i / 2] = combine_lanes<Op>(mine, __shfl_xor_sync(ALL_LANES, yours, offset), offset);
    }
  }
  return nodes[0];
}

/// Combines nodes that come one after the other, up to 2^LEVELS of them, as their tree does: a
/// binary counter, whose digits are the nodes that still wait for their neighbours.
template <typename Op, typename Acc, int LEVELS>
struct Counter {
  Acc waiting[LEVELS] = {};

  /// Takes node `index`; after the last of 2^k nodes this is the node above all of them.
  __device__ __forceinline__ Acc push(unsigned index, Acc node) {
    bool carries = true;
#pragma unroll
    for (int level = 0; level < LEVELS; ++level) {
      if (carries) {
        carries = index >> level & 1;
        if (carries) {
          node = Op::combine(waiting[level], node);
        } else {
          waiting[level] = node;
        }
      }
    }
    return node;
  }
};

}  // namespace SMEM_BUILD
}  // namespace smem::reduce
