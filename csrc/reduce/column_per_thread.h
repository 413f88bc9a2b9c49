// Columns of some hundred rows, one thread per column (or per few columns), where there are enough
// columns to fill the GPU.
//
// Threads: a thread goes down its column by 8 or 16 neighbouring thread partials, whose loads are
// in flight together. There is no barrier, and rows may begin at any address:
//   column_per_thread_kernel, W = 1   single elements
//   column_per_thread_kernel, W > 1   vectors of 8 bytes, for aligned 2-byte elements
//   column_pair_per_thread_kernel     aligned words, for two columns of unaligned 2-byte floats
//
// Order of additions: reduce/reduction_tree.h. The thresholds are measured on an H200 and may be
// tuned.
#pragma once

#include <bit>

#include "device/pdl.h"
#include "reduce/element_type.h"
#include "reduce/store.h"
#include "reduce/thread_reduce.h"

namespace smem::reduce::inline SMEM_BUILD {

constexpr int FP32_PARTIALS = 1 << FP32_LEVELS;
/// The most rows for which this kernel is taken, and the fewest threads per SM; twice as many if
/// the alternative is the multistage kernel with whole vectors.
constexpr int PER_THREAD_MAX_ROWS = 4 * PARTIALS_PER_TILE, PER_THREAD_MIN_THREADS_PER_SM = 240;
/// Loads of single elements keep few bytes in flight. The multistage kernel with vectors, or with
/// elements of up to 2 bytes, takes longer to start but ends earlier if there are more elements
/// than this.
constexpr int64_t PER_THREAD_MAX_ELEMENTS = int64_t{1} << 26;

/// The number of groups of 32 thread partials, rounded up to a power of two.
__device__ __forceinline__ unsigned fp32_groups_of(int count) {
  const unsigned thread_partials = count < PARTIALS_PER_TILE ? count : PARTIALS_PER_TILE;
  return std::bit_ceil((thread_partials - 1) / FP32_PARTIALS + 1);
}

struct ColumnPerThreadParams {
  Problem problem;
  bool store_vectors;  ///< results have x's dtype and are stored as vectors of W
};

/// The partials of W neighbouring columns. For W > 1 a thread partial has one element.
template <typename T, typename Op, int W>
__device__ __forceinline__ void reduce_column(const Problem& problem,
                                              const OrderTransform<T, Op>& transform,
                                              const T* column, Partial<Op, T> (&partial)[W]) {
  constexpr int ROWS = W > 1 || sizeof(T) == 8 ? 8 : 16, GROUPS = FP32_PARTIALS / ROWS;
  constexpr int FP32_GROUP_LEVELS = std::bit_width(unsigned{GROUPS}) - 1;
  constexpr int FP64_LEVELS = std::bit_width(unsigned{PARTIALS_PER_TILE / FP32_PARTIALS}) - 1;
  const int count = static_cast<int>(problem.count);
  const int64_t row_stride = problem.reduced.stride[IN][0];
  const unsigned groups = fp32_groups_of(count);
  BinaryCounter<Op, Partial<Op, T>, FP64_LEVELS> counters[W];
#pragma unroll 1
  for (unsigned g = 0; g < groups; ++g) {
    BinaryCounter<Op, ThreadPartial<T>, FP32_GROUP_LEVELS> group_counters[W];
    ThreadPartial<T> group_partial[W] = {};
#pragma unroll
    for (int p = 0; p < GROUPS; ++p) {
      ThreadPartials<T, Op, ROWS> thread_partials[W];
      const int first = static_cast<int>(g) * FP32_PARTIALS + p * ROWS;
      const T* from = column + first * row_stride;
      for (int row = first; row == first || (W == 1 && row < count); row += PARTIALS_PER_TILE) {
        Loaded<T, W> loaded[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
          loaded[r] = transform.template identity<W>();
          if (row + r < count) loaded[r] = load_words<W>(from);
          from += row_stride;
        }
#pragma unroll
        for (int c = 0; c < W; ++c) {
          Vector<T, ROWS> column_elements;
#pragma unroll
          for (int r = 0; r < ROWS; ++r) column_elements.lane[r] = loaded[r].elements().lane[c];
          thread_partials[c].add(column_elements, transform);
        }
        from += (PARTIALS_PER_TILE - ROWS) * row_stride;
      }
#pragma unroll
      for (int c = 0; c < W; ++c)
        group_partial[c] = group_counters[c].push(p, thread_partials[c].reduce());
    }
#pragma unroll
    for (int c = 0; c < W; ++c) partial[c] = counters[c].push(g, Partial<Op, T>(group_partial[c]));
  }
}

template <typename T, typename Op, int W>
__global__ void __launch_bounds__(THREADS, W > 1 ? 3 : 4)
    column_per_thread_kernel(const __grid_constant__ ColumnPerThreadParams params) {
  const Problem& problem = params.problem;
  const int64_t output = (int64_t{blockIdx.x} * THREADS + threadIdx.x) * W;

  launch_dependent_grids();
  wait_on_dependent_grids();
  if (output >= problem.output_count) return;
  const auto at = offsets_at(problem.outputs, output);
  Partial<Op, T> partial[W] = {};
  const OrderTransform<T, Op> transform(problem);
  reduce_column<T, Op, W>(problem, transform, static_cast<const T*>(problem.in) + at.of[IN],
                          partial);
#pragma unroll
  for (int c = 0; c < W; ++c) partial[c] = transform.invert(partial[c]);
  if constexpr (W > 1 && !std::is_integral_v<T>) {
    if (params.store_vectors) {
      Vector<T, W> results;
#pragma unroll
      for (int c = 0; c < W; ++c) {
        results.lane[c] = from_accumulator<T>(static_cast<Accumulator<T>>(partial[c]));
      }
      store_global_vector<W>(static_cast<T*>(problem.out) + at.of[OUT], results);
      return;
    }
  }
#pragma unroll
  for (int c = 0; c < W; ++c) store_result(problem, output + c, 0, partial[c]);
}

/// Pairs of columns per warp: the last lane only loads a word for the lane before it. And the
/// fewest columns per SM for which this kernel is taken: those of four blocks.
constexpr int PAIRS_PER_WARP = 31, PAIRS_MIN_COLUMNS_PER_SM = 2048;

/// Two columns per lane of 2-byte elements whose rows begin at any address, one element per thread
/// partial. A lane loads an aligned 4-byte word per row; if the row begins inside of it, the second
/// element comes from the next lane's word.
template <typename T, typename Op>
__device__ __forceinline__ void reduce_column_pairs(const Problem& problem,
                                                    const OrderTransform<T, Op>& transform,
                                                    const T* columns,
                                                    Partial<Op, T> (&partial)[2]) {
  constexpr int ROWS = 16, GROUPS = FP32_PARTIALS / ROWS;
  constexpr int FP64_LEVELS = std::bit_width(unsigned{PARTIALS_PER_TILE / FP32_PARTIALS}) - 1;
  const int count = static_cast<int>(problem.count), lane = threadIdx.x % 32;
  const int64_t row_stride = problem.reduced.stride[IN][0];
  const unsigned groups = fp32_groups_of(count);
  auto from = reinterpret_cast<uintptr_t>(columns + 2 * lane);
  BinaryCounter<Op, Partial<Op, T>, FP64_LEVELS> counters[2];
#pragma unroll 1
  for (unsigned g = 0; g < groups; ++g) {
    ThreadPartial<T> group_partials[2][GROUPS];
#pragma unroll
    for (int p = 0; p < GROUPS; ++p) {
      const int first = static_cast<int>(g) * FP32_PARTIALS + p * ROWS;
      Loaded<T, 2> loaded[ROWS];
      unsigned misalignment[ROWS];  // elements from the word's begin to the lane's columns
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        misalignment[r] = static_cast<unsigned>(from) / 2 % 2;
        loaded[r] = transform.template identity<2>();
        if (first + r < count) {
          loaded[r] = load_words<2>(reinterpret_cast<const T*>(from / 4 * 4));
        }
        from += row_stride * sizeof(T);
      }
      ThreadPartial<T> thread_partials[2][ROWS];
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        const uint32_t word = loaded[r].words.lane[0];
        const uint32_t next = __shfl_down_sync(FULL_WARP_MASK, word, 1);
        const auto both = uint64_t{next} << 32 | word;
        const auto pair =
            std::bit_cast<Vector<T, 2>>(static_cast<uint32_t>(both >> 16 * misalignment[r]));
#pragma unroll
        for (int c = 0; c < 2; ++c) thread_partials[c][r] = transform.apply(pair, c);
      }
#pragma unroll
      for (int c = 0; c < 2; ++c) group_partials[c][p] = tree_reduce<Op>(thread_partials[c]);
    }
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      partial[c] = counters[c].push(g, Partial<Op, T>(tree_reduce<Op>(group_partials[c])));
    }
  }
}

template <typename T, typename Op>
__global__ void __launch_bounds__(THREADS, 3)
    column_pair_per_thread_kernel(const __grid_constant__ ColumnPerThreadParams params) {
  constexpr int WARP_COLUMNS = 2 * PAIRS_PER_WARP, BLOCK_COLUMNS = WARPS * WARP_COLUMNS;
  const Problem& problem = params.problem;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t first = int64_t{blockIdx.x} * BLOCK_COLUMNS;
  const T* const column = static_cast<const T*>(problem.in) + first;
  const OrderTransform<T, Op> transform(problem);
  const auto store_pair_result = [&](int c, Partial<Op, T> partial) {
    store_result_at(
        problem, (first + c) * problem.outputs.stride[OUT][0],
        transform.invert(Op::combine(Op::template identity<Partial<Op, T>>(), partial)));
  };

  launch_dependent_grids();
  wait_on_dependent_grids();
  // In the first and the last block, words may extend past the ends of x. The condition is the same
  // for the whole block: with a condition per warp, nvcc would not move loads across the shuffles.
  if (blockIdx.x > 0 && first + BLOCK_COLUMNS + 2 <= problem.output_count) {
    Partial<Op, T> partial[2] = {};
    reduce_column_pairs<T, Op>(problem, transform, column + warp * WARP_COLUMNS, partial);
    if (lane == PAIRS_PER_WARP) return;
#pragma unroll
    for (int c = 0; c < 2; ++c) store_pair_result(warp * WARP_COLUMNS + 2 * lane + c, partial[c]);
    return;
  }
#pragma unroll 1
  for (int c = threadIdx.x; c < BLOCK_COLUMNS && first + c < problem.output_count; c += THREADS) {
    Partial<Op, T> partial[1] = {};
    reduce_column<T, Op, 1>(problem, transform, column + c, partial);
    store_pair_result(c, partial[0]);
  }
}

}  // namespace smem::reduce::inline SMEM_BUILD
