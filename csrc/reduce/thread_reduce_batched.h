// The partials of one thread and column, for elements at any addresses. Loads are issued in batches
// that are in flight together. A batch consists of rounds of one group of neighbouring thread
// partials, or of several groups if each of them has few rounds. The order of additions is that of
// the reduction tree (reduce/reduction_tree.h); the size of a batch does not affect it.
#pragma once

#include <bit>

#include "reduce/column_thread_map.h"
#include "reduce/order_transform.h"
#include "reduce/two_loops.h"

namespace smem::reduce::inline SMEM_BUILD {

/// The cost model: the cost of starting a block and of a second launch, in units of the time of one
/// batch. Measured on an H200.
constexpr int BATCHED_RAMP_BATCHES = 2, BATCHED_SECOND_LAUNCH_BATCHES = 5;

template <typename T, typename Op>
class BatchedThreadReduce {
 public:
  __device__ __forceinline__ BatchedThreadReduce(const Problem& problem, const TwoLoops& loops,
                                                 const T* column)
      : problem_(problem), loops_(loops), column_(column), transform_(problem) {}

  /// The partial above `groups` groups (a power of two) of thread partials of one tile, from thread
  /// partial `first` on.
  __device__ __forceinline__ ThreadPartial<T> reduce(int64_t first, int groups) const {
    const int64_t begin = first_element(problem_, first);
    // The most rounds that any thread partial of the tile has. It is the same for all threads that
    // share the tile.
    const int rounds = rounds_of(problem_, problem_.count - (begin - first % PARTIALS_PER_TILE));
    const int rounds_per_group_log2 =
        std::bit_width(static_cast<unsigned>(std::max(rounds, 1) - 1));
    const int rounds_per_group =
        1 << rounds_per_group_log2;  // includes rounds that do not exist, which add nothing
    BinaryCounter<Op, ThreadPartial<T>, MAX_GROUPS_LOG2> counter;
    ThreadPartial<T> thread_partials[PARTIALS_PER_GROUP], partial{};
    set_to_identity<Op>(thread_partials);
#pragma unroll 1
    for (int step = 0; step < groups * rounds_per_group; step += BATCH) {
      Loaded<T, 1> loaded[BATCH][PARTIALS_PER_GROUP];
#pragma unroll
      for (int b = 0; b < BATCH; ++b) {
        const int group = (step + b) >> rounds_per_group_log2,
                  round = (step + b) & (rounds_per_group - 1);
        const int64_t i = begin + group * PARTIALS_PER_GROUP + round * PARTIALS_PER_TILE;
        const bool exists = group < groups && round < rounds;
        const int64_t left = exists ? problem_.count - i : 0;
        load_group(loaded[b], i,
                   static_cast<int>(std::clamp<int64_t>(left, 0, PARTIALS_PER_GROUP)));
      }
#pragma unroll
      for (int b = 0; b < BATCH; ++b) {
        const int group = (step + b) >> rounds_per_group_log2,
                  round = (step + b) & (rounds_per_group - 1);
#pragma unroll
        for (int l = 0; l < PARTIALS_PER_GROUP; ++l) {
          thread_partials[l] =
              Op::combine(thread_partials[l], transform_.apply(loaded[b][l].elements(), 0));
        }
        if (group < groups && round + 1 == rounds_per_group) {
          partial = counter.push(group, tree_reduce<Op>(thread_partials));
          set_to_identity<Op>(thread_partials);
        }
      }
    }
    return partial;
  }

 private:
  /// Loads per thread partial at a time. None are in flight while they are added, so there are
  /// twice as many.
  static constexpr int BATCH = std::clamp(
      2 * BYTES_IN_FLIGHT / (PARTIALS_PER_GROUP * static_cast<int>(sizeof(T))), 1, MAX_BATCH);

  /// Loads elements i, i + 1, ...; `left` of them exist.
  __device__ __forceinline__ void load_group(Loaded<T, 1> (&loaded)[PARTIALS_PER_GROUP], int64_t i,
                                             int left) const {
    const T* from[PARTIALS_PER_GROUP];
    find_group(from, i);
    if (left == PARTIALS_PER_GROUP) {
#pragma unroll
      for (int l = 0; l < PARTIALS_PER_GROUP; ++l) loaded[l] = load_words<1>(from[l]);
      return;
    }
#pragma unroll
    for (int l = 0; l < PARTIALS_PER_GROUP; ++l) {
      loaded[l] = transform_.template identity<1>();
      if (l < left) loaded[l] = load_words<1>(from[l]);
    }
  }

  __device__ __forceinline__ void find_group(const T* (&from)[PARTIALS_PER_GROUP],
                                             int64_t i) const {
    const auto find = [&](const auto& offset) {
#pragma unroll
      for (int l = 0; l < PARTIALS_PER_GROUP; ++l) from[l] = column_ + offset(i + l);
    };
    const auto& reduced = problem_.reduced;
    if (loops_.exist) {
      find([&](int64_t i) { return offset_at(loops_, i); });
    } else if (reduced.rank <= 1) {
      find([&](int64_t i) { return i * reduced.stride[IN][0]; });
    } else {
      find([&](int64_t i) { return call_offsets_at(reduced, i).of[IN]; });
    }
  }

  const Problem& problem_;
  const TwoLoops& loops_;
  const T* column_;
  OrderTransform<T, Op> transform_;
};

/// The map whose blocks end earliest, if the blocks run in waves of as many as fit at once.
inline ColumnThreadMap batched_thread_map(const Problem& problem, const Device& device) {
  const int64_t thread_partials = partials_of(problem), threads = problem.output_count;
  const int64_t rounds =
      std::min<int64_t>(problem.elements_per_partial, ceil_div(problem.count, PARTIALS_PER_TILE));
  const int64_t concurrent_blocks = int64_t{COLUMNS_MIN_BLOCKS_PER_SM} * device.sm_count;
  const int64_t threads_x = std::min<int64_t>(MAX_THREADS_X, next_power_of_two(threads));
  ColumnThreadMap best{};
  int64_t lowest_cost = INT64_MAX;
  for (int64_t partials_per_thread = MAX_PARTIALS_PER_THREAD;
       partials_per_thread >= PARTIALS_PER_GROUP; partials_per_thread /= 2) {
    const ColumnThreadMap map =
        make_column_thread_map(threads, thread_partials, partials_per_thread, threads_x);
    const int64_t batches =
        ceil_div(partials_per_thread / PARTIALS_PER_GROUP * next_power_of_two(rounds), MAX_BATCH);
    const int64_t cost =
        ceil_div(map.blocks(), concurrent_blocks) * (batches + BATCHED_RAMP_BATCHES) +
        (map.splits > 1 ? BATCHED_SECOND_LAUNCH_BATCHES : 0);
    if (cost >= lowest_cost) continue;
    lowest_cost = cost;
    best = map;
  }
  return best;
}

}  // namespace smem::reduce::inline SMEM_BUILD
