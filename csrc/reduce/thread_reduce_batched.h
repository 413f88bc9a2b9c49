// How a thread of columns takes leaves element by element, wherever those lie: in batches of loads
// that are under way together. A batch is rounds of a group of neighbouring leaves, or of several
// groups where they have few.
#pragma once

#include <bit>

#include "reduce/column_thread_map.h"
#include "reduce/order_transform.h"

namespace smem::reduce {
inline namespace SMEM_BUILD {

/// What a block's start and a second launch cost, in the time of a batch.
constexpr int COLUMN_RAMP = 2, COLUMN_SECOND_LAUNCH = 5;

template <typename T, typename Op>
class LeafBatches {
 public:
  __device__ __forceinline__ LeafBatches(const Problem& problem, const T* column)
      : problem_(problem), column_(column), turn_(problem) {}

  /// The node above `groups` groups of a segment's leaves from leaf `first` on; a power of two.
  __device__ __forceinline__ Leaf<T> reduce(int64_t first, int groups,
                                            Site site = Site::here()) const {
    const int64_t begin = first_element(problem_, first);
    // As many as any leaf of the segment has: the same for all threads that share it.
    const int rounds = rounds_of(problem_, problem_.count - (begin - first % LANES));
    const int log_each = std::bit_width(static_cast<unsigned>(std::max(rounds, 1) - 1));
    const int each =
        1 << log_each;  // rounds that a group is given; more than there are add nothing
    Counter<Op, Leaf<T>, GROUP_LEVELS> counter;
    Leaf<T> leaves[GROUP], node{};
    begin_leaves(leaves);
#pragma unroll 1
    for (int step = 0; step < groups * each; step += BATCH) {
      Loaded<T, 1> loaded[BATCH][GROUP];
#pragma unroll
      for (int b = 0; b < BATCH; ++b) {
        const int group = (step + b) >> log_each, round = (step + b) & (each - 1);
        const int64_t i = begin + group * GROUP + round * LANES;
        const bool exists = group < groups && round < rounds;
        const int64_t left = exists ? problem_.count - i : 0;
        load_neighbours(loaded[b], i, static_cast<int>(std::clamp<int64_t>(left, 0, GROUP)), site);
      }
#pragma unroll
      for (int b = 0; b < BATCH; ++b) {
        const int group = (step + b) >> log_each, round = (step + b) & (each - 1);
#pragma unroll
        for (int l = 0; l < GROUP; ++l) {
          leaves[l] = Op::combine(leaves[l], turn_.leaf(loaded[b][l].elements(), 0));
        }
        if (group < groups && round + 1 == each) {
          node = counter.push(group, node_above<Op>(leaves));
          begin_leaves(leaves);
        }
      }
    }
    return node;
  }

 private:
  static constexpr int BATCH =
      std::clamp(BYTES_IN_FLIGHT / (GROUP * static_cast<int>(sizeof(T))), 1, MAX_BATCH);

  __device__ __forceinline__ static void begin_leaves(Leaf<T> (&leaves)[GROUP]) {
#pragma unroll
    for (int l = 0; l < GROUP; ++l) leaves[l] = Op::template identity<Leaf<T>>();
  }

  /// Loads elements i, i + 1, ..., of which `left` exist.
  __device__ __forceinline__ void load_neighbours(Loaded<T, 1> (&loaded)[GROUP], int64_t i,
                                                  int left, Site site) const {
    const int inner = problem_.reduced.rank - 1;
    const int64_t step = inner >= 0 ? problem_.reduced.stride[IN][inner] : 0;
    const T* from[GROUP];
    find_neighbours(from, i, left, step);
    if (left == GROUP) {
#pragma unroll
      for (int l = 0; l < GROUP; ++l) loaded[l] = load_words<1>(from[l], site);
      return;
    }
#pragma unroll
    for (int l = 0; l < GROUP; ++l) {
      loaded[l] = turn_.template identity<1>();
      if (l < left) loaded[l] = load_words<1>(from[l], site);
    }
  }

  __device__ __forceinline__ void find_neighbours(const T* (&from)[GROUP], int64_t i, int left,
                                                  int64_t step) const {
    Run run{i * step, GROUP};
    if (problem_.reduced.rank > 1 && left > 0) run = call_run_at(problem_.reduced, i);
#pragma unroll
    for (int l = 0; l < GROUP; ++l) from[l] = column_ + run.offset + l * step;
    if (run.left >= left) return;
#pragma unroll
    for (int l = 1; l < GROUP; ++l) {
      --run.left;
      run.offset += step;
      if (run.left == 0 && l < left) run = call_run_at(problem_.reduced, i + l);
      from[l] = column_ + run.offset;
    }
  }

  const Problem& problem_;
  const T* column_;
  Turn<T, Op> turn_;
};

/// The shape whose blocks are done earliest, if waves of those that run at once follow each other.
inline ColumnsShape batched_shape(const Problem& problem, const Device& device) {
  const int64_t leaves = leaves_of(problem), threads = problem.output_count;
  const int64_t rounds = std::min<int64_t>(problem.chain, ceil_div(problem.count, LANES));
  const int64_t at_once = int64_t{COLUMN_BLOCKS_AT_ONCE} * device.sm_count;
  const int64_t across = std::min<int64_t>(WIDEST, power_of_two_from(threads));
  ColumnsShape best{};
  int64_t least_cost = INT64_MAX;
  for (int64_t mine = MAX_LEAVES; mine >= GROUP; mine /= 2) {
    const ColumnsShape shape = cut_columns(threads, leaves, mine, across);
    const int64_t batches = ceil_div(mine / GROUP * power_of_two_from(rounds), MAX_BATCH);
    const int64_t cost = ceil_div(shape.blocks(), at_once) * (batches + COLUMN_RAMP) +
                         (shape.chunks > 1 ? COLUMN_SECOND_LAUNCH : 0);
    if (cost >= least_cost) continue;
    least_cost = cost;
    best = shape;
  }
  return best;
}

}  // namespace SMEM_BUILD
}  // namespace smem::reduce
