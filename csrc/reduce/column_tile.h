// The tile of a thread: 8 neighbouring thread partials (reduce/reduction_tree.h) of VEC
// neighbouring columns. Only the bytes in flight may be tuned; the order of additions is that of
// the reduction tree.
#pragma once

#include <algorithm>

#include "device/vector.h"
#include "reduce/reduce.h"
#include "reduce/reduction_tree.h"

namespace smem::reduce::inline SMEM_BUILD {

constexpr int PARTIALS_PER_GROUP = 8;  ///< thread partials that a thread accumulates at a time
/// Bytes in flight per thread. By Little's law an SM of an H200 hides the memory latency with 26 to
/// 40 KB in flight, and it runs 512 threads of up to 128 registers.
constexpr int BYTES_IN_FLIGHT = 128, MAX_BATCH = 4;

/// The first element of a thread partial; the next ones follow at a distance of PARTIALS_PER_TILE.
__device__ __forceinline__ int64_t first_element(const Problem& problem, int64_t partial_index) {
  return partial_index / PARTIALS_PER_TILE * PARTIALS_PER_TILE * problem.elements_per_partial +
         partial_index % PARTIALS_PER_TILE;
}

/// The number of elements of a thread partial if `left` elements follow from its first one on.
__device__ __forceinline__ int rounds_of(const Problem& problem, int64_t left) {
  if (left <= 0) return 0;
  const int64_t rounds = (left - 1) / PARTIALS_PER_TILE + 1;
  return rounds < problem.elements_per_partial ? static_cast<int>(rounds)
                                               : problem.elements_per_partial;
}

/// Elements per load: 8 thread partials of 4 columns are 32 accumulators per thread.
template <typename T>
constexpr int COLUMN_VEC = std::min(4, VECTOR_WIDTH<T>);

/// Reduces PARTIALS_PER_GROUP neighbouring thread partials of VEC columns. Rows provides the
/// elements: `load(i)` starts the loads of row i and returns a Rows::Loaded; `values(i,
/// loaded)` converts it to the row's VEC elements.
template <typename T, typename Op, int VEC, typename Rows>
struct ColumnTile {
  using Loaded = typename Rows::Loaded;

  /// Rounds, of one element per thread partial, whose loads are in flight together.
  static constexpr int BATCH = std::clamp(
      BYTES_IN_FLIGHT / (PARTIALS_PER_GROUP * static_cast<int>(sizeof(Loaded))), 1, MAX_BATCH);

  const Problem& problem;
  Rows rows;

  __device__ __forceinline__ void reduce(int64_t first_partial,
                                         ThreadPartial<T> (&partials)[VEC]) const {
    ThreadPartial<T> thread_partials[VEC][PARTIALS_PER_GROUP];
#pragma unroll
    for (int v = 0; v < VEC; ++v) set_to_identity<Op>(thread_partials[v]);
    const int64_t first = first_element(problem, first_partial);
    // The rounds in which all thread partials of the tile have an element, and those in which at
    // least one has. Both are the same for all threads that share the tile.
    const int64_t left = problem.count - first_partial / PARTIALS_PER_TILE * PARTIALS_PER_TILE *
                                             problem.elements_per_partial;
    const int full_rounds = rounds_of(problem, left - (PARTIALS_PER_TILE - 1)),
              rounds = rounds_of(problem, left);
    const int round = add_full_rounds<BATCH>(thread_partials, first, 0, full_rounds);
    if (round < rounds) add<1, false>(thread_partials, first, round);
#pragma unroll
    for (int v = 0; v < VEC; ++v) partials[v] = tree_reduce<Op>(thread_partials[v]);
  }

  /// Reduces BATCH groups at once, whose thread partials have at most one element each.
  __device__ __forceinline__ void reduce_single(int64_t first_partial,
                                                ThreadPartial<T> (&partials)[BATCH][VEC]) const {
    Loaded loaded[BATCH][PARTIALS_PER_GROUP];
#pragma unroll
    for (int b = 0; b < BATCH; ++b) {
#pragma unroll
      for (int g = 0; g < PARTIALS_PER_GROUP; ++g) {
        const int64_t i = first_partial + b * PARTIALS_PER_GROUP + g;
        if (i < problem.count) loaded[b][g] = rows.load(i);
      }
    }
#pragma unroll
    for (int b = 0; b < BATCH; ++b) {
      ThreadPartial<T> thread_partials[VEC][PARTIALS_PER_GROUP];
#pragma unroll
      for (int g = 0; g < PARTIALS_PER_GROUP; ++g) {
#pragma unroll
        for (int v = 0; v < VEC; ++v)
          thread_partials[v][g] = Op::template identity<ThreadPartial<T>>();
        const int64_t i = first_partial + b * PARTIALS_PER_GROUP + g;
        if (i < problem.count) add_row(thread_partials, g, i, loaded[b][g]);
      }
#pragma unroll
      for (int v = 0; v < VEC; ++v) partials[b][v] = tree_reduce<Op>(thread_partials[v]);
    }
  }

 private:
  /// Adds the rounds from `round` to `full_rounds` - 1 in batches of ROUNDS, ROUNDS / 2, ...
  /// rounds; returns `full_rounds`.
  template <int ROUNDS>
  __device__ __forceinline__ int add_full_rounds(
      ThreadPartial<T> (&thread_partials)[VEC][PARTIALS_PER_GROUP], int64_t first, int round,
      int full_rounds) const {
    for (; round + ROUNDS <= full_rounds; round += ROUNDS)
      add<ROUNDS, true>(thread_partials, first, round);
    if constexpr (ROUNDS > 1)
      return add_full_rounds<ROUNDS / 2>(thread_partials, first, round, full_rounds);
    return round;
  }

  template <int ROUNDS, bool ALL_EXIST>
  __device__ __forceinline__ void add(ThreadPartial<T> (&thread_partials)[VEC][PARTIALS_PER_GROUP],
                                      int64_t first, int round) const {
    Loaded loaded[ROUNDS][PARTIALS_PER_GROUP] = {};
    const int64_t row = first + round * PARTIALS_PER_TILE;
#pragma unroll
    for (int r = 0; r < ROUNDS; ++r) {
#pragma unroll
      for (int g = 0; g < PARTIALS_PER_GROUP; ++g) {
        const int64_t i = row + r * PARTIALS_PER_TILE + g;
        if (ALL_EXIST || i < problem.count) loaded[r][g] = rows.load(i);
      }
    }
#pragma unroll
    for (int r = 0; r < ROUNDS; ++r) {
#pragma unroll
      for (int g = 0; g < PARTIALS_PER_GROUP; ++g) {
        const int64_t i = row + r * PARTIALS_PER_TILE + g;
        if (ALL_EXIST || i < problem.count) add_row(thread_partials, g, i, loaded[r][g]);
      }
    }
  }

  /// Adds row i to thread partial g of every column.
  __device__ __forceinline__ void add_row(
      ThreadPartial<T> (&thread_partials)[VEC][PARTIALS_PER_GROUP], int g, int64_t i,
      const Loaded& loaded) const {
    const Vector<T, VEC> values = rows.values(i, loaded);
#pragma unroll
    for (int v = 0; v < VEC; ++v) {
      thread_partials[v][g] = Op::combine(thread_partials[v][g], to_thread_partial(values.lane[v]));
    }
  }
};

}  // namespace smem::reduce::inline SMEM_BUILD
