// How a thread of columns reads 16 bytes of a row at a time: into a ring of stages in shared
// memory, by cp.async, some stages ahead of what it adds. No register waits for what is under way,
// so that as much can be as latency and bandwidth ask for, all the time; and no barrier but a
// warp's.
#pragma once

#include <algorithm>

#include "device/cp_async.h"
#include "reduce/column_accumulators.h"
#include "reduce/column_thread_map.h"

namespace smem::reduce {
inline namespace SMEM_BUILD {

/// Stages of ROWS_PER_STAGE rows, of which one is being added. By Little's law 26 to 40 KB under
/// way on an SM hide an H200's latency; these are 96 with two blocks.
constexpr int STAGES = 4;
constexpr int MULTISTAGE_MIN_BLOCKS_PER_SM = 2;
/// What a block's start and a second launch cost, in the time of a stage of all blocks at once.
constexpr int MULTISTAGE_RAMP_STAGES = 2, MULTISTAGE_SECOND_LAUNCH_STAGES = 8;
/// Threads side by side that read whole lines of 128 bytes.
constexpr int THREADS_PER_LINE = 8;

/// How `vectors` columns of vectors and their thread_partials are shared out, where from `least` to
/// `most` threads may stand side by side: so that the slowest SM is done earliest.
inline ColumnThreadMap multistage_thread_map(const Problem& problem, const Device& device,
                                             int64_t vectors, int64_t least, int64_t most) {
  const int64_t thread_partials = partials_of(problem);
  const int64_t rounds =
      std::min<int64_t>(problem.elements_per_partial, ceil_div(problem.count, PARTIALS_PER_TILE));
  const int64_t concurrent_blocks = int64_t{MULTISTAGE_MIN_BLOCKS_PER_SM} * device.sm_count;
  ColumnThreadMap best{};
  int64_t lowest_cost = INT64_MAX;
  for (int64_t threads_x = most; threads_x >= least; threads_x /= 2) {
    for (int64_t partials_per_thread = MAX_PARTIALS_PER_THREAD;
         partials_per_thread >= ROWS_PER_STAGE; partials_per_thread /= 2) {
      const ColumnThreadMap map =
          make_column_thread_map(vectors, thread_partials, partials_per_thread, threads_x);
      const int64_t waves = ceil_div(map.blocks(), concurrent_blocks);
      const int64_t cost =
          waves * (partials_per_thread / ROWS_PER_STAGE * rounds + MULTISTAGE_RAMP_STAGES) +
          (map.splits > 1 ? MULTISTAGE_SECOND_LAUNCH_STAGES : 0);
      if (cost >= lowest_cost) continue;
      lowest_cost = cost;
      best = map;
    }
  }
  return best;
}

/// Adds `groups` groups of neighbouring thread_partials, of `rounds` rounds each.
/// `rows.prefetch(row, stage)` starts the copies of ROWS_PER_STAGE rows, and `rows.add(accum, row,
/// stage)` adds those that there are; row 0 is the first thread_partial's first.
template <typename Rows, typename Accum>
__device__ __forceinline__ void reduce_multistage(const Rows& rows, Accum& accum, int groups,
                                                  int rounds, Site site = Site::here()) {
  int ahead_group = 0, ahead_round = 0, stage = 0;
  const auto prefetch_next = [&](int to) {
    if (ahead_group < groups) {
      rows.prefetch(ahead_group * ROWS_PER_STAGE + ahead_round * PARTIALS_PER_TILE, to, site);
    }
    cp_async_commit();
    if (++ahead_round < rounds) return;
    ahead_round = 0;
    ++ahead_group;
  };
  for (int s = 0; s < STAGES - 1; ++s) prefetch_next(s);
  for (int g = 0; g < groups; ++g) {
    accum.begin();
    for (int round = 0; round < rounds; ++round) {
      cp_async_wait<STAGES - 2>();
      Rows::sync();
      prefetch_next((stage + STAGES - 1) % STAGES);
      rows.add(accum, g * ROWS_PER_STAGE + round * PARTIALS_PER_TILE, stage, site);
      stage = (stage + 1) % STAGES;
    }
    accum.end(g);
  }
}

/// Of `rows` rows from `first` on, as many as the ring may come to; there may be less than none.
__device__ __forceinline__ int rows_left(int64_t first, int64_t rows) {
  constexpr int64_t MOST = PARTIALS_PER_TILE * ELEMENTS_PER_PARTIAL;
  return static_cast<int>(std::clamp<int64_t>(rows - first, 0, MOST));
}

/// The rows of a thread whose columns lie in one aligned vector: a slot is its own.
template <typename T>
class AlignedRowLoader {
 public:
  static constexpr int W = VECTOR_WIDTH<T>;
  static constexpr size_t SHARED_BYTES = size_t{16} * THREADS * ROWS_PER_STAGE * STAGES;

  /// From row `first` on of columns of which `column` is the first.
  __device__ __forceinline__ AlignedRowLoader(const Problem& problem, const T* column,
                                              int64_t first, bool exists)
      : step_(problem.reduced.rank > 0 ? problem.reduced.stride[IN][0] : 0),
        begin_(column + first * step_),
        row_count_(exists ? rows_left(first, problem.count) : 0) {}

  __device__ __forceinline__ static void sync() {}

  __device__ __forceinline__ void prefetch(int row, int stage, Site site) const {
    const T* const from = begin_ + row * step_;
#pragma unroll
    for (int r = 0; r < ROWS_PER_STAGE; ++r) {
      if (row + r < row_count_) cp_async<W>(smem_at(stage, r), from + r * step_, W, site);
    }
  }
  template <typename Accum>
  __device__ __forceinline__ void add(Accum& accum, int row, int stage, Site site) const {
    if (row + ROWS_PER_STAGE <= row_count_) {
      RowVector<T> loaded[ROWS_PER_STAGE];
#pragma unroll
      for (int r = 0; r < ROWS_PER_STAGE; ++r) loaded[r] = load_words<W>(smem_at(stage, r), site);
#pragma unroll
      for (int r = 0; r < ROWS_PER_STAGE; ++r) accum.add(r, loaded[r]);
      return;
    }
#pragma unroll
    for (int r = 0; r < ROWS_PER_STAGE - 1; ++r) {
      if (row + r < row_count_) accum.add(r, load_words<W>(smem_at(stage, r), site));
    }
  }

 private:
  __device__ __forceinline__ static T* smem_at(int stage, int row) {
    const int thread = threadIdx.x;
    return dynamic_shared<T>() + ((stage * ROWS_PER_STAGE + row) * THREADS + thread) * W;
  }

  int64_t step_;
  const T* begin_;
  int row_count_;
};

}  // namespace SMEM_BUILD
}  // namespace smem::reduce
