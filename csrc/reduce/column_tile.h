// The elements of neighbouring thread_partials (reduce/reduction_tree.h) that a thread of columns
// takes at a time.
#pragma once

#include <algorithm>

#include "device/vector.h"
#include "reduce/reduce.h"
#include "reduce/reduction_tree.h"

namespace smem::reduce {
inline namespace SMEM_BUILD {

constexpr int PARTIALS_PER_GROUP = 8;  ///< thread_partials that a thread takes at a time
/// Of a thread; by Little's law 26 to 40 KB an SM hide an H200's latency, and there are
/// 512 threads of up to 128 registers.
constexpr int BYTES_IN_FLIGHT = 128, MAX_BATCH = 4;

/// Where a thread_partial's first element stands; the others are PARTIALS_PER_TILE apart.
__device__ __forceinline__ int64_t first_element(const Problem& problem, int64_t thread_partial) {
  return thread_partial / PARTIALS_PER_TILE * PARTIALS_PER_TILE * problem.elements_per_partial +
         thread_partial % PARTIALS_PER_TILE;
}

/// Of elements PARTIALS_PER_TILE apart from a tile's first thread_partial on, that `left` elements
/// reach.
__device__ __forceinline__ int rounds_of(const Problem& problem, int64_t left) {
  if (left <= 0) return 0;
  const int64_t rounds = (left - 1) / PARTIALS_PER_TILE + 1;
  return rounds < problem.elements_per_partial ? static_cast<int>(rounds)
                                               : problem.elements_per_partial;
}

/// Elements a load: with 8 thread_partials of 4 elements, a thread holds 32 sums.
template <typename T>
constexpr int COLUMN_VEC = std::min(4, VECTOR_WIDTH<T>);

/// The elements of a PARTIALS_PER_GROUP of neighbouring thread_partials of VEC columns. A Rows
/// gives them: `load(i, site)` starts what row i takes, a Rows::Loaded, and `values(i, loaded,
/// site)` makes the row's VEC elements of it.
template <typename T, typename Op, int VEC, typename Rows>
struct ColumnTile {
  using Loaded = typename Rows::Loaded;

  /// Rounds, of an element a thread_partial, whose loads are under way together.
  static constexpr int BATCH = std::clamp(
      BYTES_IN_FLIGHT / (PARTIALS_PER_GROUP * static_cast<int>(sizeof(Loaded))), 1, MAX_BATCH);

  const Problem& problem;
  Rows rows;

  __device__ __forceinline__ void reduce(int64_t thread_partial, ThreadPartial<T> (&partials)[VEC],
                                         Site site = Site::here()) const {
    ThreadPartial<T> thread_partials[VEC][PARTIALS_PER_GROUP];
#pragma unroll
    for (int v = 0; v < VEC; ++v) {
#pragma unroll
      for (int g = 0; g < PARTIALS_PER_GROUP; ++g)
        thread_partials[v][g] = Op::template identity<ThreadPartial<T>>();
    }
    const int64_t first = first_element(problem, thread_partial);
    // Rounds that all thread_partials of the tile have an element in, and those that any has: the
    // same for all threads that share it.
    const int64_t left = problem.count - thread_partial / PARTIALS_PER_TILE * PARTIALS_PER_TILE *
                                             problem.elements_per_partial;
    const int whole = rounds_of(problem, left - (PARTIALS_PER_TILE - 1)),
              rounds = rounds_of(problem, left);
    const int round = add_whole<BATCH>(thread_partials, first, 0, whole, site);
    if (round < rounds) add<1, false>(thread_partials, first, round, site);
#pragma unroll
    for (int v = 0; v < VEC; ++v) partials[v] = tree_reduce<Op>(thread_partials[v]);
  }

  /// BATCH groups at once, of thread_partials that have one element at most.
  __device__ __forceinline__ void reduce_single(int64_t thread_partial,
                                                ThreadPartial<T> (&partials)[BATCH][VEC],
                                                Site site = Site::here()) const {
    Loaded loaded[BATCH][PARTIALS_PER_GROUP];
#pragma unroll
    for (int b = 0; b < BATCH; ++b) {
#pragma unroll
      for (int g = 0; g < PARTIALS_PER_GROUP; ++g) {
        const int64_t i = thread_partial + b * PARTIALS_PER_GROUP + g;
        if (i < problem.count) loaded[b][g] = rows.load(i, site);
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
        const int64_t i = thread_partial + b * PARTIALS_PER_GROUP + g;
        if (i < problem.count) add_row(thread_partials, g, i, loaded[b][g], site);
      }
#pragma unroll
      for (int v = 0; v < VEC; ++v) partials[b][v] = tree_reduce<Op>(thread_partials[v]);
    }
  }

 private:
  /// Adds rounds up to `whole`, as many at a time as there are; returns `whole`.
  template <int ROUNDS>
  __device__ __forceinline__ int add_whole(
      ThreadPartial<T> (&thread_partials)[VEC][PARTIALS_PER_GROUP], int64_t first, int round,
      int whole, Site site) const {
    for (; round + ROUNDS <= whole; round += ROUNDS)
      add<ROUNDS, true>(thread_partials, first, round, site);
    if constexpr (ROUNDS > 1)
      return add_whole<ROUNDS / 2>(thread_partials, first, round, whole, site);
    return round;
  }

  template <int ROUNDS, bool WHOLE>
  __device__ __forceinline__ void add(ThreadPartial<T> (&thread_partials)[VEC][PARTIALS_PER_GROUP],
                                      int64_t first, int round, Site site) const {
    Loaded loaded[ROUNDS][PARTIALS_PER_GROUP] = {};
    const int64_t row = first + round * PARTIALS_PER_TILE;
#pragma unroll
    for (int r = 0; r < ROUNDS; ++r) {
#pragma unroll
      for (int g = 0; g < PARTIALS_PER_GROUP; ++g) {
        const int64_t i = row + r * PARTIALS_PER_TILE + g;
        if (WHOLE || i < problem.count) loaded[r][g] = rows.load(i, site);
      }
    }
#pragma unroll
    for (int r = 0; r < ROUNDS; ++r) {
#pragma unroll
      for (int g = 0; g < PARTIALS_PER_GROUP; ++g) {
        const int64_t i = row + r * PARTIALS_PER_TILE + g;
        if (WHOLE || i < problem.count) add_row(thread_partials, g, i, loaded[r][g], site);
      }
    }
  }

  /// Adds row i to the thread_partials of number g.
  __device__ __forceinline__ void add_row(
      ThreadPartial<T> (&thread_partials)[VEC][PARTIALS_PER_GROUP], int g, int64_t i,
      const Loaded& loaded, Site site) const {
    const Vector<T, VEC> values = rows.values(i, loaded, site);
#pragma unroll
    for (int v = 0; v < VEC; ++v) {
      thread_partials[v][g] = Op::combine(thread_partials[v][g], to_thread_partial(values.lane[v]));
    }
  }
};

}  // namespace SMEM_BUILD
}  // namespace smem::reduce
