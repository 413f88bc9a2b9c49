// A multistage pipeline for columns: each thread copies 16 bytes of a row at a time to shared
// memory by cp.async and adds the rows of an earlier stage meanwhile.
//
//   stage      | 0: being added | 1: in flight | 2: in flight | 3: in flight |    4 rows each
//                   thread t reads vector t of each row and adds it to its accumulators
//
// Loads in flight need no registers, so the pipeline can be as deep as latency and bandwidth
// demand. Every thread (AlignedRowLoader) or every warp (reduce/column_unaligned.h) reads only what
// it copied itself, so there is no block-wide barrier.
//
// STAGES and ROWS_PER_STAGE may be tuned; the order of additions does not depend on them.
#pragma once

#include <algorithm>
#include <limits>

#include "device/cp_async.h"
#include "reduce/column_accumulators.h"
#include "reduce/column_thread_map.h"

namespace smem::reduce::inline SMEM_BUILD {

/// Stages of ROWS_PER_STAGE rows, one of which is being added. By Little's law an SM of an H200
/// hides the memory latency with 26 to 40 KB in flight; two blocks have 96 KB.
constexpr int STAGES = 4;
constexpr int MULTISTAGE_MIN_BLOCKS_PER_SM = 2;
/// The cost model: the cost of starting a block and of a second launch, in units of the time of one
/// stage of a block on every SM. Fitted on an H100.
constexpr int MULTISTAGE_RAMP_STAGES = 4, HIDDEN_RAMP_STAGES = 2,
              MULTISTAGE_SECOND_LAUNCH_STAGES = 7;
/// Neighbouring threads that read one cache line of 128 bytes.
constexpr int THREADS_PER_LINE = 8;

/// The estimated time of a problem with a thread map, in stages. One block keeps enough bytes in
/// flight for its SM, so two that share an SM take about twice as long. If every second SM has a
/// block more than the others, the GPU is done half a wave later. Of more blocks than fit at once,
/// a block starts while its neighbour works, which hides half of the ramp, and the last ones leave
/// other SMs idle.
inline double multistage_cost(const Problem& problem, const Device& device,
                              const ColumnThreadMap& map) {
  const int64_t rounds =
      std::min<int64_t>(problem.elements_per_partial, ceil_div(problem.count, PARTIALS_PER_TILE));
  const int64_t stages = map.partials_per_thread / ROWS_PER_STAGE * rounds;
  const int64_t concurrent_blocks = int64_t{MULTISTAGE_MIN_BLOCKS_PER_SM} * device.sm_count;
  const int64_t rounds_of_blocks = ceil_div(map.blocks(), concurrent_blocks);
  const auto half_waves = static_cast<double>(ceil_div(2 * map.blocks(), device.sm_count));
  const double waves = rounds_of_blocks > 1
                           ? static_cast<double>(MULTISTAGE_MIN_BLOCKS_PER_SM * rounds_of_blocks)
                           : std::max(1.0, half_waves / 2);
  const int ramp = rounds_of_blocks > 1 ? HIDDEN_RAMP_STAGES : MULTISTAGE_RAMP_STAGES;
  const double time = waves * static_cast<double>(stages + ramp);
  return time + (map.splits > 1 ? MULTISTAGE_SECOND_LAUNCH_STAGES : 0);
}

/// The division of `vectors` vectors of columns and their thread partials over blocks: the map for
/// which the slowest SM ends earliest; of equal ones, that with the longest rows per block. Between
/// min_threads_x and max_threads_x threads are along the columns.
inline ColumnThreadMap multistage_thread_map(const Problem& problem, const Device& device,
                                             int64_t vectors, int64_t min_threads_x,
                                             int64_t max_threads_x) {
  const int64_t thread_partials = partials_of(problem);
  ColumnThreadMap best{};
  double lowest_cost = std::numeric_limits<double>::max();
  for (int64_t threads_x = max_threads_x; threads_x >= min_threads_x; threads_x /= 2) {
    for (int64_t partials_per_thread = MAX_PARTIALS_PER_THREAD;
         partials_per_thread >= ROWS_PER_STAGE; partials_per_thread /= 2) {
      const ColumnThreadMap map =
          make_column_thread_map(vectors, thread_partials, partials_per_thread, threads_x);
      const double cost = multistage_cost(problem, device, map);
      if (cost >= lowest_cost) continue;
      lowest_cost = cost;
      best = map;
    }
  }
  return best;
}

/// Adds `groups` groups of neighbouring thread partials with `rounds` rounds each.
/// `rows.prefetch(row, stage)` starts the copies of ROWS_PER_STAGE rows, and `rows.add(accum, row,
/// stage)` adds those that exist. Row 0 is the first row of the first thread partial.
template <typename Rows, typename Accum>
__device__ __forceinline__ void reduce_multistage(const Rows& rows, Accum& accum, int groups,
                                                  int rounds) {
  int ahead_group = 0, ahead_round = 0, stage = 0;
  const auto prefetch_next = [&](int to_stage) {
    if (ahead_group < groups) {
      rows.prefetch(ahead_group * ROWS_PER_STAGE + ahead_round * PARTIALS_PER_TILE, to_stage);
    }
    cp_async_commit();
    if (++ahead_round < rounds) return;
    ahead_round = 0;
    ++ahead_group;
  };
  for (int s = 0; s < STAGES - 1; ++s) prefetch_next(s);
  for (int g = 0; g < groups; ++g) {
    accum.begin_group();
    for (int round = 0; round < rounds; ++round) {
      cp_async_wait<STAGES - 2>();
      Rows::sync();
      prefetch_next((stage + STAGES - 1) % STAGES);
      rows.add(accum, g * ROWS_PER_STAGE + round * PARTIALS_PER_TILE, stage);
      stage = (stage + 1) % STAGES;
    }
    accum.end_group(g);
  }
}

/// The number of rows that follow row `first` of `rows` rows, limited to what a thread can process
/// and to at least 0.
__device__ __forceinline__ int rows_left(int64_t first, int64_t rows) {
  constexpr int64_t MAX_ROWS_PER_THREAD = PARTIALS_PER_TILE * ELEMENTS_PER_PARTIAL;
  return static_cast<int>(std::clamp<int64_t>(rows - first, 0, MAX_ROWS_PER_THREAD));
}

/// Adds the rows of a stage from `row` on, below `row_count`. load_row(r) reads the stage's row r.
template <typename T, typename Accum, typename LoadRow>
__device__ __forceinline__ void add_stage(Accum& accum, int row, int row_count,
                                          const LoadRow& load_row) {
  if (row + ROWS_PER_STAGE <= row_count) {
    RowVector<T> loaded[ROWS_PER_STAGE];
#pragma unroll
    for (int r = 0; r < ROWS_PER_STAGE; ++r) loaded[r] = load_row(r);
#pragma unroll
    for (int r = 0; r < ROWS_PER_STAGE; ++r) accum.add(r, loaded[r]);
    return;
  }
#pragma unroll
  for (int r = 0; r < ROWS_PER_STAGE - 1; ++r) {
    if (row + r < row_count) accum.add(r, load_row(r));
  }
}

/// The rows of a thread whose columns are one aligned vector. It reads only what it copied itself.
template <typename T>
class AlignedRowLoader {
 public:
  static constexpr int W = VECTOR_WIDTH<T>;
  static constexpr size_t SHARED_BYTES = size_t{16} * THREADS * ROWS_PER_STAGE * STAGES;

  /// `column` is the first of the thread's columns, and `first` the first row.
  __device__ __forceinline__ AlignedRowLoader(const Problem& problem, const T* column,
                                              int64_t first, bool exists)
      : row_stride_(problem.reduced.rank > 0 ? problem.reduced.stride[IN][0] : 0),
        begin_(column + first * row_stride_),
        row_count_(exists ? rows_left(first, problem.count) : 0) {}

  __device__ __forceinline__ static void sync() {}

  __device__ __forceinline__ void prefetch(int row, int stage) const {
    const T* const from = begin_ + row * row_stride_;
#pragma unroll
    for (int r = 0; r < ROWS_PER_STAGE; ++r) {
      if (row + r < row_count_) cp_async<W>(smem_at(stage, r), from + r * row_stride_, W);
    }
  }
  template <typename Accum>
  __device__ __forceinline__ void add(Accum& accum, int row, int stage) const {
    add_stage<T>(accum, row, row_count_, [&](int r) { return load_words<W>(smem_at(stage, r)); });
  }

 private:
  __device__ __forceinline__ static T* smem_at(int stage, int row) {
    const int thread = threadIdx.x;
    return dynamic_shared<T>() + ((stage * ROWS_PER_STAGE + row) * THREADS + thread) * W;
  }

  int64_t row_stride_;
  const T* begin_;
  int row_count_;
};

}  // namespace smem::reduce::inline SMEM_BUILD
