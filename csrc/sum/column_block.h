// How a block goes down columns, for kernels whose outputs' neighbours are neighbours in memory.
//
// A thread owns VEC neighbouring columns and takes 8 neighbouring leaves at a time (sum/order.h),
// their loads in flight with no sum waiting for another; where columns are few, threads above each
// other share them, each a run of leaves of its own, and shuffles and shared memory join the runs.
#pragma once

#include <algorithm>

#include "device/vector.h"
#include "sum/dispatch.h"

namespace smem::sum {
inline namespace SMEM_BUILD {

/// Elements a load, at most: with 8 leaves of each, a thread holds 32 sums.
constexpr int MAX_COLUMN_WIDTH = 4;
template <typename T>
constexpr int COLUMN_WIDTH = std::min(MAX_COLUMN_WIDTH, VECTOR_WIDTH<T>);

constexpr int GROUP = 8;         ///< leaves that a thread takes at a time
constexpr int GROUP_LEVELS = 3;  ///< up to 2^3 groups one after the other
constexpr int MAX_LEAVES = GROUP << GROUP_LEVELS;
/// Of a thread; by Little's law 26 to 40 KB a multiprocessor hide an H200's latency, and there are
/// 512 threads of up to 128 registers.
constexpr int BYTES_IN_FLIGHT = 128, MAX_BATCH = 4, BLOCKS_AT_ONCE = 2;
constexpr int WIDEST = 32;        ///< threads side by side, if others can be above each other
constexpr int COLUMN_BLOCKS = 8;  ///< blocks a multiprocessor, for which work is divided

/// The elements of a GROUP of neighbouring leaves of VEC columns. A Rows gives them: `load(i,
/// site)` starts what row i takes, a Rows::Loaded, and `values(i, loaded, site)` makes the row's
/// VEC elements of it.
template <typename T, typename Op, int VEC, typename Rows>
struct LeafGroup {
  using Loaded = typename Rows::Loaded;

  /// Rounds, of an element a leaf, whose loads are under way together.
  static constexpr int BATCH =
      std::clamp(BYTES_IN_FLIGHT / (GROUP * static_cast<int>(sizeof(Loaded))), 1, MAX_BATCH);

  const Problem& problem;
  Rows rows;

  __device__ __forceinline__ void reduce(int64_t leaf, Leaf<T> (&nodes)[VEC],
                                         Site site = Site::here()) const {
    Leaf<T> leaves[VEC][GROUP];
#pragma unroll
    for (int v = 0; v < VEC; ++v) {
#pragma unroll
      for (int g = 0; g < GROUP; ++g) leaves[v][g] = Op::template identity<Leaf<T>>();
    }
    const int64_t first = leaf / LANES * LANES * problem.chain + leaf % LANES;
    const int64_t left = problem.count - first;
    const int chain = left <= 0 ? 0 : problem.chain;
    // Rounds that all leaves have an element in.
    const int whole =
        left < GROUP ? 0 : static_cast<int>(std::min<int64_t>(chain, (left - GROUP) / LANES + 1));
    int round = 0;
    for (; round + BATCH <= whole; round += BATCH) add<BATCH, true>(leaves, first, round, site);
    for (; round < chain; ++round) add<1, false>(leaves, first, round, site);
#pragma unroll
    for (int v = 0; v < VEC; ++v) nodes[v] = node_above<Op>(leaves[v]);
  }

 private:
  template <int ROUNDS, bool WHOLE>
  __device__ __forceinline__ void add(Leaf<T> (&leaves)[VEC][GROUP], int64_t first, int round,
                                      Site site) const {
    Loaded loaded[ROUNDS][GROUP] = {};
    const int64_t row = first + round * LANES;
#pragma unroll
    for (int r = 0; r < ROUNDS; ++r) {
#pragma unroll
      for (int g = 0; g < GROUP; ++g) {
        const int64_t i = row + r * LANES + g;
        if (WHOLE || i < problem.count) loaded[r][g] = rows.load(i, site);
      }
    }
#pragma unroll
    for (int r = 0; r < ROUNDS; ++r) {
#pragma unroll
      for (int g = 0; g < GROUP; ++g) {
        const int64_t i = row + r * LANES + g;
        if (WHOLE || i < problem.count) {
          const Vector<T, VEC> values = rows.values(i, loaded[r][g], site);
#pragma unroll
          for (int v = 0; v < VEC; ++v) {
            leaves[v][g] = Op::combine(leaves[v][g], to_leaf(values.lane[v]));
          }
        }
      }
    }
  }
};

/// How the columns and leaves of a problem are shared out.
struct ColumnsShape {
  int threads_across, leaves_a_thread;  ///< powers of two
  int64_t tiles;                        ///< blocks across
  int64_t chunks;                       ///< blocks above each other
};

inline ColumnsShape columns_shape(const Problem& problem, const Device& device, int width) {
  const int64_t segment = int64_t{LANES} * problem.chain;
  const int64_t leaves = std::max<int64_t>(
      1, problem.count / segment * LANES + std::min<int64_t>(LANES, problem.count % segment));
  const int64_t threads = ceil_div(problem.output_count, width);
  const int64_t wanted = int64_t{COLUMN_BLOCKS} * THREADS * device.multiprocessors;
  int64_t mine = std::clamp<int64_t>(power_of_two_from(leaves), GROUP, MAX_LEAVES);
  for (; mine > GROUP && threads * ceil_div(leaves, mine) < wanted; mine /= 2) {
  }
  const int64_t across =
      std::max(std::min<int64_t>(WIDEST, power_of_two_from(threads)),
               THREADS / std::min<int64_t>(THREADS, power_of_two_from(ceil_div(leaves, mine))));
  return {static_cast<int>(across), static_cast<int>(mine), ceil_div(threads, across),
          ceil_div(leaves, mine * (THREADS / across))};
}

/// Where the calling thread stands: its first column, and the run of leaves that is its own.
template <int VEC>
struct ColumnThread {
  int threads_across, leaves_a_thread, y;
  int64_t output, chunk;

  __device__ __forceinline__ explicit ColumnThread(const ColumnsShape& shape)
      : threads_across(shape.threads_across), leaves_a_thread(shape.leaves_a_thread) {
    const int thread = threadIdx.x;
    y = thread / threads_across;
    chunk = blockIdx.x / shape.tiles;
    output = (blockIdx.x % shape.tiles * threads_across + thread % threads_across) * VEC;
  }

  /// The node above the thread's own run of leaves.
  template <typename T, typename Op, typename Rows>
  __device__ __forceinline__ void reduce(const LeafGroup<T, Op, VEC, Rows>& group,
                                         Leaf<T> (&run)[VEC], Site site = Site::here()) const {
    const int64_t first = (chunk * (THREADS / threads_across) + y) * leaves_a_thread;
    Counter<Op, Leaf<T>, GROUP_LEVELS> counters[VEC];
    for (int g = 0; g < leaves_a_thread / GROUP; ++g) {
      group.reduce(first + g * GROUP, run, site);
#pragma unroll
      for (int v = 0; v < VEC; ++v) run[v] = counters[v].push(g, run[v]);
    }
  }

  /// In the topmost threads: the node above those of all threads above each other. Every thread of
  /// the block must take part.
  template <typename Op, typename Acc>
  __device__ __forceinline__ void join(Acc (&node)[VEC], Tile<Acc, VEC, THREADS>& nodes,
                                       Site site = Site::here()) const {
    const int thread = threadIdx.x, above = THREADS / threads_across;
    for (int apart = 1; apart < above; apart *= 2) {
      const int threads_apart = apart * threads_across;
      if (threads_apart < 32) {
#pragma unroll
        for (int v = 0; v < VEC; ++v) {
          node[v] = Op::combine(node[v], __shfl_down_sync(ALL_LANES, node[v], threads_apart));
        }
        continue;
      }
      if (y % apart == 0) {
#pragma unroll
        for (int v = 0; v < VEC; ++v) nodes(v, thread, site) = node[v];
      }
      // One barrier a level: what is read now, no later level writes.
      __syncthreads();
      if (y % (2 * apart) == 0) {
#pragma unroll
        for (int v = 0; v < VEC; ++v) {
          node[v] = Op::combine(node[v], Acc(nodes(v, thread + threads_apart, site)));
        }
      }
    }
  }
};

}  // namespace SMEM_BUILD
}  // namespace smem::sum
