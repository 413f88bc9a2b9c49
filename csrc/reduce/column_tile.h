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
constexpr int BYTES_IN_FLIGHT = 64, MAX_BATCH = 4;

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

constexpr int COLUMN_TILE_ROWS = 4;  ///< thread partials that a ColumnTile accumulates at a time

/// Reduces thread partials of VEC columns, COLUMN_TILE_ROWS neighbouring ones at a time. Rows
/// provides the elements: `from(row)` is the rows from there on, `load(i)` starts the loads of row
/// i of them and returns a Rows::Loaded, `values(loaded)` converts it to the row's VEC elements,
/// and `store(i, values)` may keep them.
///
/// Of neighbouring rows only the store is conditional: for a row that does not exist the last one
/// is loaded, and is not added. Around each load and each computation nvcc would branch, and those
/// of neighbouring rows would not overlap.
template <typename T, typename Op, int VEC, typename Rows>
struct ColumnTile {
  using Loaded = typename Rows::Loaded;

  static constexpr int ROWS = COLUMN_TILE_ROWS;
  /// Rounds, of one element per thread partial, whose loads are in flight while those before are
  /// added.
  static constexpr int BATCH =
      std::clamp(BYTES_IN_FLIGHT / (ROWS * static_cast<int>(sizeof(Loaded))), 1, MAX_BATCH);
  static_assert(ELEMENTS_PER_PARTIAL % BATCH == 0, "no batch goes beyond a tile");

  const Problem& problem;
  Rows rows;

  /// The partials above `count` thread partials (a power of two) of one tile, from `first_partial`
  /// on. The caller has set them to the identity, which they remain if there are no rows.
  __device__ __forceinline__ void reduce(int64_t first_partial, int count,
                                         ThreadPartial<T> (&partials)[VEC]) const {
    constexpr int LEVELS = FP32_LEVELS + 1 - std::bit_width(unsigned{ROWS});
    BinaryCounter<Op, ThreadPartial<T>, LEVELS> counters[VEC];
    const int64_t begin = first_element(problem, first_partial);
    if (begin >= problem.count) return;
    const Rows here = rows.from(begin);
    const int left = static_cast<int>(std::min<int64_t>(problem.count - begin, INT32_MAX));
    // Of the thread partial with the most elements.
    const int rounds =
        rounds_of(problem, problem.count - (begin - first_partial % PARTIALS_PER_TILE));
    Loaded next[BATCH][ROWS] = {};
    load(next, here, 0, left);
#pragma unroll 1
    for (int tile = 0; tile < count / ROWS; ++tile) {
      ThreadPartial<T> thread_partials[VEC][ROWS];
#pragma unroll
      for (int v = 0; v < VEC; ++v) set_to_identity<Op>(thread_partials[v]);
#pragma unroll 1
      for (int round = 0; round < rounds; round += BATCH) {
        const int row = tile * ROWS + round * PARTIALS_PER_TILE;
        Loaded loaded[BATCH][ROWS];
#pragma unroll
        for (int i = 0; i < BATCH * ROWS; ++i)
          loaded[i / ROWS][i % ROWS] = next[i / ROWS][i % ROWS];
        const bool is_last = round + BATCH >= rounds;
        if (!is_last || (tile + 1) * ROWS < count)
          load(next, here, is_last ? (tile + 1) * ROWS : row + BATCH * PARTIALS_PER_TILE, left);
        add(thread_partials, here, row, left, loaded);
      }
#pragma unroll
      for (int v = 0; v < VEC; ++v)
        partials[v] = counters[v].push(tile, tree_reduce<Op>(thread_partials[v]));
    }
  }

 private:
  static __device__ __forceinline__ void load(Loaded (&loaded)[BATCH][ROWS], const Rows& rows,
                                              int first, int left) {
#pragma unroll
    for (int round = 0; round < BATCH; ++round) {
      const int row = first + round * PARTIALS_PER_TILE;
      if (row >= left) break;
#pragma unroll
      for (int i = 0; i < ROWS; ++i) loaded[round][i] = rows.load(std::min(row + i, left - 1));
    }
  }

  static __device__ __forceinline__ void add(ThreadPartial<T> (&thread_partials)[VEC][ROWS],
                                             const Rows& rows, int first, int left,
                                             const Loaded (&loaded)[BATCH][ROWS]) {
#pragma unroll
    for (int round = 0; round < BATCH; ++round) {
      const int row = first + round * PARTIALS_PER_TILE;
      if (row >= left) break;
#pragma unroll
      for (int i = 0; i < ROWS; ++i) {
        const Vector<T, VEC> values = rows.values(loaded[round][i]);
        const bool exists = row + i < left;
        if (exists) rows.store(row + i, values);
#pragma unroll
        for (int v = 0; v < VEC; ++v) {
          ThreadPartial<T>& partial = thread_partials[v][i];
          const ThreadPartial<T> sum = Op::combine(partial, to_thread_partial(values.lane[v]));
          partial = exists ? sum : partial;
        }
      }
    }
  }
};

}  // namespace smem::reduce::inline SMEM_BUILD
