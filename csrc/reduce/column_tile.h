// The tile of a thread: a few neighbouring thread partials (reduce/reduction_tree.h) of VEC
// neighbouring columns. Only their number may be tuned; the order of additions is that of the
// reduction tree.
#pragma once

#include <algorithm>
#include <bit>

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

/// Neighbouring thread partials that a ColumnTile accumulates at a time. With 4 single elements a
/// thread has too little in flight where columns are short: 333 x 50,257 takes 1.3 times as long.
constexpr int column_tile_rows(int vec) { return vec == 1 ? 8 : 4; }

/// Reduces thread partials of VEC columns, ROWS neighbouring ones at a time. Rows provides the
/// elements: `load(i)` starts the loads of row i and returns a Rows::Loaded; `values(i, loaded)`
/// converts it to the row's VEC elements.
template <typename T, typename Op, int VEC, typename Rows>
struct ColumnTile {
  using Loaded = typename Rows::Loaded;

  static constexpr int ROWS = column_tile_rows(VEC);
  /// Rounds, of one element per thread partial, whose loads are in flight while those before are
  /// added. More than one of single elements spills: 333 x 50,257 in bfloat16 took three times as
  /// long.
  static constexpr int BATCH =
      VEC == 1
          ? 1
          : std::clamp(BYTES_IN_FLIGHT / (ROWS * static_cast<int>(sizeof(Loaded))), 1, MAX_BATCH);
  static_assert(ELEMENTS_PER_PARTIAL % BATCH == 0, "no batch goes beyond a tile");

  const Problem& problem;
  Rows rows;

  /// The partials above `count` thread partials (a power of two) of one tile, from `first_partial`
  /// on.
  __device__ __forceinline__ void reduce(int64_t first_partial, int count,
                                         ThreadPartial<T> (&partials)[VEC]) const {
    constexpr int LEVELS = FP32_LEVELS + 1 - std::bit_width(unsigned{ROWS});
    BinaryCounter<Op, ThreadPartial<T>, LEVELS> counters[VEC];
    const int64_t begin = first_element(problem, first_partial);
    // Of the thread partial with the most elements.
    const int rounds =
        rounds_of(problem, problem.count - (begin - first_partial % PARTIALS_PER_TILE));
    Loaded next[BATCH][ROWS] = {};
    load(next, begin);
#pragma unroll 1
    for (int tile = 0; tile < count / ROWS; ++tile) {
      ThreadPartial<T> thread_partials[VEC][ROWS];
#pragma unroll
      for (int v = 0; v < VEC; ++v) set_to_identity<Op>(thread_partials[v]);
#pragma unroll 1
      for (int round = 0; round < rounds; round += BATCH) {
        const int64_t row = begin + tile * ROWS + round * PARTIALS_PER_TILE;
        Loaded loaded[BATCH][ROWS];
#pragma unroll
        for (int i = 0; i < BATCH * ROWS; ++i)
          loaded[i / ROWS][i % ROWS] = next[i / ROWS][i % ROWS];
        const bool is_last = round + BATCH >= rounds;
        if (!is_last || (tile + 1) * ROWS < count)
          load(next, is_last ? begin + (tile + 1) * ROWS : row + BATCH * PARTIALS_PER_TILE);
        add(thread_partials, row, loaded);
      }
#pragma unroll
      for (int v = 0; v < VEC; ++v)
        partials[v] = counters[v].push(tile, tree_reduce<Op>(thread_partials[v]));
    }
  }

 private:
  __device__ __forceinline__ void load(Loaded (&loaded)[BATCH][ROWS], int64_t first) const {
#pragma unroll
    for (int i = 0; i < BATCH * ROWS; ++i) {
      const int64_t row = first + i / ROWS * PARTIALS_PER_TILE + i % ROWS;
      if (row < problem.count) loaded[i / ROWS][i % ROWS] = rows.load(row);
    }
  }

  /// Adds the rows of a batch, one of each round to each thread partial.
  __device__ __forceinline__ void add(ThreadPartial<T> (&thread_partials)[VEC][ROWS], int64_t first,
                                      const Loaded (&loaded)[BATCH][ROWS]) const {
#pragma unroll
    for (int i = 0; i < BATCH * ROWS; ++i) {
      const int64_t row = first + i / ROWS * PARTIALS_PER_TILE + i % ROWS;
      if (row >= problem.count) continue;
      const Vector<T, VEC> values = rows.values(row, loaded[i / ROWS][i % ROWS]);
#pragma unroll
      for (int v = 0; v < VEC; ++v) {
        ThreadPartial<T>& partial = thread_partials[v][i % ROWS];
        partial = Op::combine(partial, to_thread_partial(values.lane[v]));
      }
    }
  }
};

}  // namespace smem::reduce::inline SMEM_BUILD
