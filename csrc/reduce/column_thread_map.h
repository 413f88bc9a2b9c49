// How a block goes down columns, for kernels whose outputs' neighbours are neighbours in memory.
//
// A thread owns VEC neighbouring columns and takes groups of 8 neighbouring thread_partials
// (reduce/column_tile.h), whose loads are in flight with no sum waiting for another; where columns
// are few, threads threads_y each other share them, each a partial of thread_partials of its own,
// and shuffles and shared memory join the runs.
#pragma once

#include "device/tile.h"
#include "reduce/column_tile.h"
#include "reduce/element_type.h"

namespace smem::reduce {
inline namespace SMEM_BUILD {

constexpr int MAX_GROUP_LEVELS = 2;  ///< up to 2^2 groups one after the other
constexpr int MAX_PARTIALS_PER_THREAD = PARTIALS_PER_GROUP << MAX_GROUP_LEVELS;
static_assert(MAX_PARTIALS_PER_THREAD == 1 << FP32_LEVELS, "a thread ends where sums widen");
constexpr int COLUMNS_MIN_BLOCKS_PER_SM = 2;
constexpr int MAX_THREADS_X = 32;  ///< threads side by side, if others can be threads_y each other
constexpr int TARGET_BLOCKS_PER_SM = 8;  ///< blocks an SM, for which work is divided

/// How the columns and thread_partials of a problem are shared out.
struct ColumnThreadMap {
  int threads_x, partials_per_thread;  ///< powers of two
  unsigned grid_x;                     ///< blocks threads_x
  int64_t splits;                      ///< blocks threads_y each other

  int64_t blocks() const { return grid_x * splits; }
};

inline int64_t partials_of(const Problem& problem) {
  const int64_t tile = int64_t{PARTIALS_PER_TILE} * problem.elements_per_partial;
  return std::max<int64_t>(1, problem.count / tile * PARTIALS_PER_TILE +
                                  std::min<int64_t>(PARTIALS_PER_TILE, problem.count % tile));
}

/// Threads that take `partials_per_thread` thread_partials each, at min_threads_x `min_threads_x`
/// of them side by side; more where fewer than a block's are needed threads_y each other.
inline ColumnThreadMap make_column_thread_map(int64_t threads, int64_t thread_partials,
                                              int64_t partials_per_thread, int64_t min_threads_x) {
  const int64_t threads_y =
      std::min<int64_t>(THREADS, power_of_two_from(ceil_div(thread_partials, partials_per_thread)));
  const int64_t threads_x = std::max(min_threads_x, THREADS / threads_y);
  return {static_cast<int>(threads_x), static_cast<int>(partials_per_thread),
          static_cast<unsigned>(ceil_div(threads, threads_x)),
          ceil_div(thread_partials, partials_per_thread * (THREADS / threads_x))};
}

inline ColumnThreadMap column_thread_map(const Problem& problem, const Device& device, int width) {
  const int64_t thread_partials = partials_of(problem);
  const int64_t threads = ceil_div(problem.output_count, width);
  const int64_t target_threads = int64_t{TARGET_BLOCKS_PER_SM} * THREADS * device.sm_count;
  int64_t partials_per_thread = std::clamp<int64_t>(power_of_two_from(thread_partials),
                                                    PARTIALS_PER_GROUP, MAX_PARTIALS_PER_THREAD);
  for (; partials_per_thread > PARTIALS_PER_GROUP &&
         threads * ceil_div(thread_partials, partials_per_thread) < target_threads;
       partials_per_thread /= 2) {
  }
  return make_column_thread_map(threads, thread_partials, partials_per_thread,
                                std::min<int64_t>(MAX_THREADS_X, power_of_two_from(threads)));
}

/// A partial of a block's: of short integers, 2^13 thread_partials of them, in 32 bits.
template <typename T, typename Op>
using BlockPartial = std::conditional_t<std::is_integral_v<T>, ThreadPartial<T>, Partial<Op, T>>;
static_assert((int64_t{THREADS} * MAX_PARTIALS_PER_THREAD * ELEMENTS_PER_PARTIAL << 15) - 1 <=
              INT32_MAX);

/// Two partials' parent; of narrow ones, where that is narrow too.
template <typename T, typename Op>
__device__ __forceinline__ BlockPartial<T, Op> combine(BlockPartial<T, Op> a, BlockPartial<T, Op> b,
                                                       bool narrow) {
  using Narrow = ThreadPartial<T>;
  if (!narrow) return Op::combine(a, b);
  return BlockPartial<T, Op>(Op::combine(static_cast<Narrow>(a), static_cast<Narrow>(b)));
}

/// Where the calling thread stands: its first column, and the partial of thread_partials that is
/// its own.
template <int VEC>
struct ColumnThread {
  int threads_x, partials_per_thread, y;
  int64_t output, split;

  __device__ __forceinline__ explicit ColumnThread(const ColumnThreadMap& map)
      : threads_x(map.threads_x), partials_per_thread(map.partials_per_thread) {
    const int thread = threadIdx.x;
    const unsigned block_x = blockIdx.x % map.grid_x;
    y = thread / threads_x;
    split = blockIdx.x / map.grid_x;
    output = (int64_t{block_x} * threads_x + thread % threads_x) * VEC;
  }

  __device__ __forceinline__ int64_t first_partial() const {
    return (split * (THREADS / threads_x) + y) * partials_per_thread;
  }

  /// The partial threads_y the thread's own partial of thread_partials.
  template <typename T, typename Op, typename Group>
  __device__ __forceinline__ void reduce(const Group& group, ThreadPartial<T> (&partial)[VEC],
                                         Site site = Site::here()) const {
    constexpr int BATCH = Group::BATCH;
    const int64_t first = first_partial();
    const int groups = partials_per_thread / PARTIALS_PER_GROUP;
    BinaryCounter<Op, ThreadPartial<T>, MAX_GROUP_LEVELS> counters[VEC];
    int g = 0;
    if constexpr (BATCH > 1) {
      for (; group.problem.count <= PARTIALS_PER_TILE && g + BATCH <= groups; g += BATCH) {
        ThreadPartial<T> batch[BATCH][VEC];
        group.reduce_single(first + g * PARTIALS_PER_GROUP, batch, site);
#pragma unroll
        for (int b = 0; b < BATCH; ++b) {
#pragma unroll
          for (int v = 0; v < VEC; ++v) partial[v] = counters[v].push(g + b, batch[b][v]);
        }
      }
    }
    for (; g < groups; ++g) {
      group.reduce(first + g * PARTIALS_PER_GROUP, partial, site);
#pragma unroll
      for (int v = 0; v < VEC; ++v) partial[v] = counters[v].push(g, partial[v]);
    }
  }

  /// In the topmost threads: the partial threads_y those of all threads threads_y each other. Every
  /// thread of the block must take part.
  template <typename T, typename Op, int PITCH>
  __device__ __forceinline__ void join(BlockPartial<T, Op> (&partial)[VEC],
                                       Tile<BlockPartial<T, Op>, VEC, PITCH>& partials) const {
    const int thread = threadIdx.x, threads_y = THREADS / threads_x;
    for (int stride = 1; stride < threads_y; stride *= 2) {
      const int lane_stride = stride * threads_x;
      const bool narrow = 2 * stride * partials_per_thread <= 1 << FP32_LEVELS;
      if (lane_stride < 32) {
#pragma unroll
        for (int v = 0; v < VEC; ++v) {
          partial[v] = combine<T, Op>(
              partial[v], __shfl_down_sync(FULL_WARP_MASK, partial[v], lane_stride), narrow);
        }
        continue;
      }
      if (y % stride == 0) {
#pragma unroll
        for (int v = 0; v < VEC; ++v) partials(v, thread) = partial[v];
      }
      // One barrier a level: what is read now, no later level writes.
      __syncthreads();
      if (y % (2 * stride) == 0) {
#pragma unroll
        for (int v = 0; v < VEC; ++v) {
          partial[v] = combine<T, Op>(
              partial[v], BlockPartial<T, Op>(partials(v, thread + lane_stride)), narrow);
        }
      }
    }
  }
};

}  // namespace SMEM_BUILD
}  // namespace smem::reduce
