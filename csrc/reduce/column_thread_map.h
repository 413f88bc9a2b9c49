// The mapping of blocks and threads to columns and their rows.
//
//   columns   ->   x: threads_x threads per block, grid_x blocks, VEC columns per thread
//   rows      ->   y: THREADS / threads_x threads per block, `splits` blocks
//
// Each thread reduces partials_per_thread consecutive thread partials of its columns, a few at a
// time (reduce/column_tile.h). If there are few columns, several threads (y) share them, and `join`
// combines their partials by shuffles and through shared memory.
//
// The order of additions is that of reduce/reduction_tree.h for every map, because each thread's
// share is a power of two of thread partials.
#pragma once

#include "device/tile.h"
#include "reduce/column_tile.h"
#include "reduce/element_type.h"

namespace smem::reduce::inline SMEM_BUILD {

constexpr int MAX_GROUPS_LOG2 = 2;  ///< log2 of the most groups per thread
constexpr int MAX_PARTIALS_PER_THREAD = PARTIALS_PER_GROUP << MAX_GROUPS_LOG2;
static_assert(MAX_PARTIALS_PER_THREAD == 1 << FP32_LEVELS, "a thread ends where sums widen");
constexpr int COLUMNS_MIN_BLOCKS_PER_SM = 2;
/// threads along the columns, if there are rows for more along y
constexpr int MAX_THREADS_X = 32;
constexpr int TARGET_BLOCKS_PER_SM = 8;  ///< target of column_thread_map

/// The division of a problem's columns and thread partials over blocks and threads.
struct ColumnThreadMap {
  int threads_x, partials_per_thread;  ///< powers of two
  unsigned grid_x;                     ///< blocks along the columns
  int64_t splits;                      ///< blocks along the rows

  int64_t blocks() const { return grid_x * splits; }
};

inline int64_t partials_of(const Problem& problem) {
  const int64_t tile = int64_t{PARTIALS_PER_TILE} * problem.elements_per_partial;
  return std::max<int64_t>(1, problem.count / tile * PARTIALS_PER_TILE +
                                  std::min<int64_t>(PARTIALS_PER_TILE, problem.count % tile));
}

/// The map for `threads` threads along the columns, each with `partials_per_thread` thread
/// partials. At least `min_threads_x` of a block's threads are along the columns, and more if the
/// rows do not need the others.
inline ColumnThreadMap make_column_thread_map(int64_t threads, int64_t thread_partials,
                                              int64_t partials_per_thread, int64_t min_threads_x) {
  const int64_t threads_y =
      std::min<int64_t>(THREADS, next_power_of_two(ceil_div(thread_partials, partials_per_thread)));
  const int64_t threads_x = std::max(min_threads_x, THREADS / threads_y);
  return {static_cast<int>(threads_x), static_cast<int>(partials_per_thread),
          static_cast<unsigned>(ceil_div(threads, threads_x)),
          ceil_div(thread_partials, partials_per_thread * (THREADS / threads_x))};
}

/// The map for ColumnTile. Threads take as few thread partials as fill the GPU: PARTIALS_PER_GROUP,
/// or one tile if a column is divided over blocks that are fewer than SMs.
inline ColumnThreadMap column_thread_map(const Problem& problem, const Device& device, int width) {
  const int64_t thread_partials = partials_of(problem);
  const int64_t threads = ceil_div(problem.output_count, width);
  const int64_t target_threads = int64_t{TARGET_BLOCKS_PER_SM} * THREADS * device.sm_count;
  const int64_t min_threads_x = std::min<int64_t>(MAX_THREADS_X, next_power_of_two(threads));
  const auto map_of = [&](int64_t partials_per_thread) {
    return make_column_thread_map(threads, thread_partials, partials_per_thread, min_threads_x);
  };
  int64_t partials_per_thread = std::clamp<int64_t>(next_power_of_two(thread_partials),
                                                    PARTIALS_PER_GROUP, MAX_PARTIALS_PER_THREAD);
  while (partials_per_thread > PARTIALS_PER_GROUP &&
         threads * ceil_div(thread_partials, partials_per_thread) < target_threads) {
    partials_per_thread /= 2;
  }
  const ColumnThreadMap map = map_of(partials_per_thread);
  const bool leaves_sms_idle = map.splits > 1 && map.blocks() < device.sm_count;
  return leaves_sms_idle ? map_of(COLUMN_TILE_ROWS) : map;
}

/// The type of a partial within a block. Those of short integers, of at most 2^13 thread partials,
/// fit 32 bits.
template <typename T, typename Op>
using BlockPartial = std::conditional_t<std::is_integral_v<T>, ThreadPartial<T>, Partial<Op, T>>;
static_assert((int64_t{THREADS} * MAX_PARTIALS_PER_THREAD * ELEMENTS_PER_PARTIAL << 15) - 1 <=
              INT32_MAX);

/// The partial above two partials. `fp32`: both are below FP32_LEVELS, so their combination is of
/// the type of a thread partial.
template <typename T, typename Op>
__device__ __forceinline__ BlockPartial<T, Op> combine(BlockPartial<T, Op> a, BlockPartial<T, Op> b,
                                                       bool fp32) {
  using Fp32 = ThreadPartial<T>;
  if (!fp32) return Op::combine(a, b);
  return BlockPartial<T, Op>(Op::combine(static_cast<Fp32>(a), static_cast<Fp32>(b)));
}

/// The calling thread's coordinates: its first column, and its range of thread partials.
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

  /// Combines the partials of all threads with the same columns; the threads with y == 0 get the
  /// result. All threads of the block must call it.
  template <typename T, typename Op, int PITCH>
  __device__ __forceinline__ void join(BlockPartial<T, Op> (&partial)[VEC],
                                       Tile<BlockPartial<T, Op>, VEC, PITCH>& partials) const {
    const int thread = threadIdx.x, threads_y = THREADS / threads_x;
    for (int stride = 1; stride < threads_y; stride *= 2) {
      const int lane_stride = stride * threads_x;
      const bool fp32 = 2 * stride * partials_per_thread <= 1 << FP32_LEVELS;
      if (lane_stride < 32) {
#pragma unroll
        for (int v = 0; v < VEC; ++v) {
          partial[v] = combine<T, Op>(
              partial[v], __shfl_down_sync(FULL_WARP_MASK, partial[v], lane_stride), fp32);
        }
        continue;
      }
      if (y % stride == 0) {
#pragma unroll
        for (int v = 0; v < VEC; ++v) partials(v, thread) = partial[v];
      }
      // One barrier per level is enough: no later level writes what this one reads.
      __syncthreads();
      if (y % (2 * stride) == 0) {
#pragma unroll
        for (int v = 0; v < VEC; ++v) {
          partial[v] = combine<T, Op>(partial[v],
                                      BlockPartial<T, Op>(partials(v, thread + lane_stride)), fp32);
        }
      }
    }
  }
};

}  // namespace smem::reduce::inline SMEM_BUILD
