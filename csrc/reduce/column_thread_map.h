// How a block goes down columns, for kernels whose outputs' neighbours are neighbours in memory.
//
// A thread owns VEC neighbouring columns and takes groups of 8 neighbouring leaves
// (reduce/column_tile.h), whose loads are in flight with no sum waiting for another; where columns are
// few, threads above each other share them, each a run of leaves of its own, and shuffles and
// shared memory join the runs.
#pragma once

#include "device/tile.h"
#include "reduce/element_type.h"
#include "reduce/column_tile.h"

namespace smem::reduce {
inline namespace SMEM_BUILD {

constexpr int GROUP_LEVELS = 2;  ///< up to 2^2 groups one after the other
constexpr int MAX_LEAVES = GROUP << GROUP_LEVELS;
static_assert(MAX_LEAVES == 1 << NARROW_LEVELS, "a thread ends where sums widen");
constexpr int COLUMN_BLOCKS_AT_ONCE = 2;
constexpr int WIDEST = 32;        ///< threads side by side, if others can be above each other
constexpr int COLUMN_BLOCKS = 8;  ///< blocks an SM, for which work is divided

/// How the columns and leaves of a problem are shared out.
struct ColumnsShape {
  int threads_across, leaves_a_thread;  ///< powers of two
  unsigned tiles;                       ///< blocks across
  int64_t chunks;                       ///< blocks above each other

  int64_t blocks() const { return tiles * chunks; }
};

inline int64_t leaves_of(const Problem& problem) {
  const int64_t segment = int64_t{LANES} * problem.chain;
  return std::max<int64_t>(
      1, problem.count / segment * LANES + std::min<int64_t>(LANES, problem.count % segment));
}

/// Threads that take `mine` leaves each, at least `least` of them side by side; more where fewer
/// than a block's are needed above each other.
inline ColumnsShape cut_columns(int64_t threads, int64_t leaves, int64_t mine, int64_t least) {
  const int64_t above = std::min<int64_t>(THREADS, power_of_two_from(ceil_div(leaves, mine)));
  const int64_t across = std::max(least, THREADS / above);
  return {static_cast<int>(across), static_cast<int>(mine),
          static_cast<unsigned>(ceil_div(threads, across)),
          ceil_div(leaves, mine * (THREADS / across))};
}

inline ColumnsShape columns_shape(const Problem& problem, const Device& device, int width) {
  const int64_t leaves = leaves_of(problem);
  const int64_t threads = ceil_div(problem.output_count, width);
  const int64_t wanted = int64_t{COLUMN_BLOCKS} * THREADS * device.sm_count;
  int64_t mine = std::clamp<int64_t>(power_of_two_from(leaves), GROUP, MAX_LEAVES);
  for (; mine > GROUP && threads * ceil_div(leaves, mine) < wanted; mine /= 2) {
  }
  return cut_columns(threads, leaves, mine, std::min<int64_t>(WIDEST, power_of_two_from(threads)));
}

/// A node of a block's: of short integers, 2^13 leaves of them, in 32 bits.
template <typename T, typename Op>
using BlockNode = std::conditional_t<std::is_integral_v<T>, Leaf<T>, Node<Op, T>>;
static_assert((int64_t{THREADS} * MAX_LEAVES * CHAIN << 15) - 1 <= INT32_MAX);

/// Two nodes' parent; of narrow ones, where that is narrow too.
template <typename T, typename Op>
__device__ __forceinline__ BlockNode<T, Op> combine(BlockNode<T, Op> a, BlockNode<T, Op> b,
                                                    bool narrow) {
  using Narrow = Leaf<T>;
  if (!narrow) return Op::combine(a, b);
  return BlockNode<T, Op>(Op::combine(static_cast<Narrow>(a), static_cast<Narrow>(b)));
}

/// Where the calling thread stands: its first column, and the run of leaves that is its own.
template <int VEC>
struct ColumnThread {
  int threads_across, leaves_a_thread, y;
  int64_t output, chunk;

  __device__ __forceinline__ explicit ColumnThread(const ColumnsShape& shape)
      : threads_across(shape.threads_across), leaves_a_thread(shape.leaves_a_thread) {
    const int thread = threadIdx.x;
    const unsigned tile = blockIdx.x % shape.tiles;
    y = thread / threads_across;
    chunk = blockIdx.x / shape.tiles;
    output = (int64_t{tile} * threads_across + thread % threads_across) * VEC;
  }

  __device__ __forceinline__ int64_t first_leaf() const {
    return (chunk * (THREADS / threads_across) + y) * leaves_a_thread;
  }

  /// The node above the thread's own run of leaves.
  template <typename T, typename Op, typename Group>
  __device__ __forceinline__ void reduce(const Group& group, Leaf<T> (&run)[VEC],
                                         Site site = Site::here()) const {
    constexpr int BATCH = Group::BATCH;
    const int64_t first = first_leaf();
    const int groups = leaves_a_thread / GROUP;
    Counter<Op, Leaf<T>, GROUP_LEVELS> counters[VEC];
    int g = 0;
    if constexpr (BATCH > 1) {
      for (; group.problem.count <= LANES && g + BATCH <= groups; g += BATCH) {
        Leaf<T> batch[BATCH][VEC];
        group.reduce_single(first + g * GROUP, batch, site);
#pragma unroll
        for (int b = 0; b < BATCH; ++b) {
#pragma unroll
          for (int v = 0; v < VEC; ++v) run[v] = counters[v].push(g + b, batch[b][v]);
        }
      }
    }
    for (; g < groups; ++g) {
      group.reduce(first + g * GROUP, run, site);
#pragma unroll
      for (int v = 0; v < VEC; ++v) run[v] = counters[v].push(g, run[v]);
    }
  }

  /// In the topmost threads: the node above those of all threads above each other. Every thread of
  /// the block must take part.
  template <typename T, typename Op, int PITCH>
  __device__ __forceinline__ void join(BlockNode<T, Op> (&node)[VEC],
                                       Tile<BlockNode<T, Op>, VEC, PITCH>& nodes) const {
    const int thread = threadIdx.x, above = THREADS / threads_across;
    for (int apart = 1; apart < above; apart *= 2) {
      const int threads_apart = apart * threads_across;
      const bool narrow = 2 * apart * leaves_a_thread <= 1 << NARROW_LEVELS;
      if (threads_apart < 32) {
#pragma unroll
        for (int v = 0; v < VEC; ++v) {
          node[v] =
              combine<T, Op>(node[v], __shfl_down_sync(ALL_LANES, node[v], threads_apart), narrow);
        }
        continue;
      }
      if (y % apart == 0) {
#pragma unroll
        for (int v = 0; v < VEC; ++v) nodes(v, thread) = node[v];
      }
      // One barrier a level: what is read now, no later level writes.
      __syncthreads();
      if (y % (2 * apart) == 0) {
#pragma unroll
        for (int v = 0; v < VEC; ++v) {
          node[v] =
              combine<T, Op>(node[v], BlockNode<T, Op>(nodes(v, thread + threads_apart)), narrow);
        }
      }
    }
  }
};

}  // namespace SMEM_BUILD
}  // namespace smem::reduce
