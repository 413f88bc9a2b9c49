// The elements of neighbouring leaves (reduce/reduction_tree.h) that a thread of columns takes at a time.
#pragma once

#include <algorithm>

#include "device/vector.h"
#include "reduce/reduction_tree.h"
#include "reduce/reduce.h"

namespace smem::reduce {
inline namespace SMEM_BUILD {

constexpr int GROUP = 8;  ///< leaves that a thread takes at a time
/// Of a thread; by Little's law 26 to 40 KB an SM hide an H200's latency, and there are
/// 512 threads of up to 128 registers.
constexpr int BYTES_IN_FLIGHT = 128, MAX_BATCH = 4;

/// Where a leaf's first element stands; the others are LANES apart.
__device__ __forceinline__ int64_t first_element(const Problem& problem, int64_t leaf) {
  return leaf / LANES * LANES * problem.chain + leaf % LANES;
}

/// Of elements LANES apart from a segment's first leaf on, that `left` elements reach.
__device__ __forceinline__ int rounds_of(const Problem& problem, int64_t left) {
  if (left <= 0) return 0;
  const int64_t rounds = (left - 1) / LANES + 1;
  return rounds < problem.chain ? static_cast<int>(rounds) : problem.chain;
}

/// Elements a load: with 8 leaves of 4 elements, a thread holds 32 sums.
template <typename T>
constexpr int COLUMN_WIDTH = std::min(4, VECTOR_WIDTH<T>);

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
    const int64_t first = first_element(problem, leaf);
    // Rounds that all leaves of the segment have an element in, and those that any has: the same
    // for all threads that share it.
    const int64_t left = problem.count - leaf / LANES * LANES * problem.chain;
    const int whole = rounds_of(problem, left - (LANES - 1)), rounds = rounds_of(problem, left);
    const int round = add_whole<BATCH>(leaves, first, 0, whole, site);
    if (round < rounds) add<1, false>(leaves, first, round, site);
#pragma unroll
    for (int v = 0; v < VEC; ++v) nodes[v] = node_above<Op>(leaves[v]);
  }

  /// BATCH groups at once, of leaves that have one element at most.
  __device__ __forceinline__ void reduce_single(int64_t leaf, Leaf<T> (&nodes)[BATCH][VEC],
                                                Site site = Site::here()) const {
    Loaded loaded[BATCH][GROUP];
#pragma unroll
    for (int b = 0; b < BATCH; ++b) {
#pragma unroll
      for (int g = 0; g < GROUP; ++g) {
        const int64_t i = leaf + b * GROUP + g;
        if (i < problem.count) loaded[b][g] = rows.load(i, site);
      }
    }
#pragma unroll
    for (int b = 0; b < BATCH; ++b) {
      Leaf<T> leaves[VEC][GROUP];
#pragma unroll
      for (int g = 0; g < GROUP; ++g) {
#pragma unroll
        for (int v = 0; v < VEC; ++v) leaves[v][g] = Op::template identity<Leaf<T>>();
        const int64_t i = leaf + b * GROUP + g;
        if (i < problem.count) add_row(leaves, g, i, loaded[b][g], site);
      }
#pragma unroll
      for (int v = 0; v < VEC; ++v) nodes[b][v] = node_above<Op>(leaves[v]);
    }
  }

 private:
  /// Adds rounds up to `whole`, as many at a time as there are; returns `whole`.
  template <int ROUNDS>
  __device__ __forceinline__ int add_whole(Leaf<T> (&leaves)[VEC][GROUP], int64_t first, int round,
                                           int whole, Site site) const {
    for (; round + ROUNDS <= whole; round += ROUNDS) add<ROUNDS, true>(leaves, first, round, site);
    if constexpr (ROUNDS > 1) return add_whole<ROUNDS / 2>(leaves, first, round, whole, site);
    return round;
  }

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
        if (WHOLE || i < problem.count) add_row(leaves, g, i, loaded[r][g], site);
      }
    }
  }

  /// Adds row i to the leaves of number g.
  __device__ __forceinline__ void add_row(Leaf<T> (&leaves)[VEC][GROUP], int g, int64_t i,
                                          const Loaded& loaded, Site site) const {
    const Vector<T, VEC> values = rows.values(i, loaded, site);
#pragma unroll
    for (int v = 0; v < VEC; ++v) {
      leaves[v][g] = Op::combine(leaves[v][g], to_leaf(values.lane[v]));
    }
  }
};

}  // namespace SMEM_BUILD
}  // namespace smem::reduce
