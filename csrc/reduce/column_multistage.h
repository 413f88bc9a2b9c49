// How a thread of columns reads 16 bytes of a row at a time: into a ring of stages in shared
// memory, by cp.async, some stages ahead of what it adds. No register waits for what is under way,
// so that as much can be as latency and bandwidth ask for, all the time; and no barrier but a
// warp's.
#pragma once

#include <algorithm>

#include "device/cp_async.h"
#include "reduce/column_thread_map.h"
#include "reduce/column_accumulators.h"

namespace smem::reduce {
inline namespace SMEM_BUILD {

/// Stages of STAGE_ROWS rows, of which one is being added. By Little's law 26 to 40 KB under way on
/// an SM hide an H200's latency; these are 96 with two blocks.
constexpr int STAGES = 4;
constexpr int RING_BLOCKS_AT_ONCE = 2;
/// What a block's start and a second launch cost, in the time of a stage of all blocks at once.
constexpr int RING_RAMP = 2, RING_SECOND_LAUNCH = 8;
/// Threads side by side that read whole lines of 128 bytes.
constexpr int LINE_THREADS = 8;

/// How `vectors` columns of vectors and their leaves are shared out, where from `least` to `most`
/// threads may stand side by side: so that the slowest SM is done earliest.
inline ColumnsShape ring_shape(const Problem& problem, const Device& device, int64_t vectors,
                               int64_t least, int64_t most) {
  const int64_t leaves = leaves_of(problem);
  const int64_t rounds = std::min<int64_t>(problem.chain, ceil_div(problem.count, LANES));
  const int64_t at_once = int64_t{RING_BLOCKS_AT_ONCE} * device.sm_count;
  ColumnsShape best{};
  int64_t least_cost = INT64_MAX;
  for (int64_t across = most; across >= least; across /= 2) {
    for (int64_t mine = MAX_LEAVES; mine >= STAGE_ROWS; mine /= 2) {
      const ColumnsShape shape = cut_columns(vectors, leaves, mine, across);
      const int64_t waves = ceil_div(shape.blocks(), at_once);
      const int64_t cost = waves * (mine / STAGE_ROWS * rounds + RING_RAMP) +
                           (shape.chunks > 1 ? RING_SECOND_LAUNCH : 0);
      if (cost >= least_cost) continue;
      least_cost = cost;
      best = shape;
    }
  }
  return best;
}

/// Adds `groups` groups of neighbouring leaves, of `rounds` rounds each. `rows.prefetch(row, stage)`
/// starts the copies of STAGE_ROWS rows, and `rows.add(sums, row, stage)` adds those that there
/// are; row 0 is the first leaf's first.
template <typename Rows, typename Sums>
__device__ __forceinline__ void sum_by_ring(const Rows& rows, Sums& sums, int groups, int rounds,
                                            Site site = Site::here()) {
  int ahead_group = 0, ahead_round = 0, stage = 0;
  const auto prefetch_next = [&](int to) {
    if (ahead_group < groups) {
      rows.prefetch(ahead_group * STAGE_ROWS + ahead_round * LANES, to, site);
    }
    cp_async_commit();
    if (++ahead_round < rounds) return;
    ahead_round = 0;
    ++ahead_group;
  };
  for (int s = 0; s < STAGES - 1; ++s) prefetch_next(s);
  for (int g = 0; g < groups; ++g) {
    sums.begin();
    for (int round = 0; round < rounds; ++round) {
      cp_async_wait<STAGES - 2>();
      Rows::sync();
      prefetch_next((stage + STAGES - 1) % STAGES);
      rows.add(sums, g * STAGE_ROWS + round * LANES, stage, site);
      stage = (stage + 1) % STAGES;
    }
    sums.end(g);
  }
}

/// Of `rows` rows from `first` on, as many as the ring may come to; there may be less than none.
__device__ __forceinline__ int rows_from(int64_t first, int64_t rows) {
  constexpr int64_t MOST = LANES * CHAIN;
  return static_cast<int>(std::clamp<int64_t>(rows - first, 0, MOST));
}

/// The rows of a thread whose columns lie in one aligned vector: a slot is its own.
template <typename T>
class AlignedRows {
 public:
  static constexpr int W = VECTOR_WIDTH<T>;
  static constexpr size_t SHARED_BYTES = size_t{16} * THREADS * STAGE_ROWS * STAGES;

  /// From row `first` on of columns of which `column` is the first.
  __device__ __forceinline__ AlignedRows(const Problem& problem, const T* column, int64_t first,
                                         bool exist)
      : step_(problem.reduced.rank > 0 ? problem.reduced.stride[IN][0] : 0),
        begin_(column + first * step_),
        count_(exist ? rows_from(first, problem.count) : 0) {}

  __device__ __forceinline__ static void sync() {}

  __device__ __forceinline__ void prefetch(int row, int stage, Site site) const {
    const T* const from = begin_ + row * step_;
#pragma unroll
    for (int r = 0; r < STAGE_ROWS; ++r) {
      if (row + r < count_) cp_async<W>(slot(stage, r), from + r * step_, W, site);
    }
  }
  template <typename Sums>
  __device__ __forceinline__ void add(Sums& sums, int row, int stage, Site site) const {
    if (row + STAGE_ROWS <= count_) {
      RowVector<T> loaded[STAGE_ROWS];
#pragma unroll
      for (int r = 0; r < STAGE_ROWS; ++r) loaded[r] = load_words<W>(slot(stage, r), site);
#pragma unroll
      for (int r = 0; r < STAGE_ROWS; ++r) sums.add(r, loaded[r]);
      return;
    }
#pragma unroll
    for (int r = 0; r < STAGE_ROWS - 1; ++r) {
      if (row + r < count_) sums.add(r, load_words<W>(slot(stage, r), site));
    }
  }

 private:
  __device__ __forceinline__ static T* slot(int stage, int row) {
    const int thread = threadIdx.x;
    return dynamic_shared<T>() + ((stage * STAGE_ROWS + row) * THREADS + thread) * W;
  }

  int64_t step_;
  const T* begin_;
  int count_;
};

}  // namespace SMEM_BUILD
}  // namespace smem::reduce
