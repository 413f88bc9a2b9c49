// Columns of up to 32 rows, whose rows one thread holds in registers.
//
// Threads: thread t of the grid reduces column t, or vector t of W columns if columns are whole,
// aligned vectors. It loads IN_REGISTERS_ROWS_PER_PASS rows at a time. There is no pipeline and no
// barrier before the results are stored: a block waits for memory once, and many blocks per SM keep
// enough bytes in flight.
//
// Order of additions: reduce/reduction_tree.h. 32 rows are the 2^5 thread partials of one element
// each up to which sums stay in float32, so IN_REGISTERS_MAX_ROWS must not grow; the rows per pass
// and the launch bounds may be tuned.
#pragma once

#include <algorithm>

#include "device/pdl.h"
#include "device/target.h"
#include "reduce/column_accumulators.h"
#include "reduce/column_thread_map.h"
#include "reduce/store.h"
#include "reduce/thread_reduce.h"

namespace smem::reduce::inline SMEM_BUILD {

constexpr int IN_REGISTERS_MAX_ROWS = 1 << FP32_LEVELS, IN_REGISTERS_ROWS_PER_PASS = 8;

struct ColumnInRegistersParams {
  Problem problem;
  bool store_vectors;  ///< results have x's dtype and are stored as vectors of W
  int64_t row_offset[IN_REGISTERS_MAX_ROWS];  ///< from row 0, in elements; of several loops

  /// The host computes the offsets, so rows may lie along any loops: a thread would divide for
  /// each.
  ColumnInRegistersParams(const Problem& problem, bool store_vectors)
      : problem(problem), store_vectors(store_vectors), row_offset{} {
    const OffsetCalculator<1>& loop = problem.reduced;
    for (int row = 0; loop.rank > 1 && row < problem.count; ++row) {
      int index = row;
      for (int d = loop.rank - 1; d >= 0; --d) {
        row_offset[row] += index % loop.size[d] * loop.stride[IN][d];
        index /= static_cast<int>(loop.size[d]);
      }
    }
  }
};

/// The accumulators of W neighbouring columns. SINGLE_PASS: there are at most
/// IN_REGISTERS_ROWS_PER_PASS rows, along one loop. Row i begins at column + row_offset(i).
template <typename T, typename Op, int W, bool SINGLE_PASS, typename RowOffset>
__device__ __forceinline__ ColumnAccumulators<T, Op, W> reduce_in_registers(
    const T* column, const RowOffset& row_offset, int count,
    const OrderTransform<T, Op>& transform) {
  constexpr int GROUPS = IN_REGISTERS_ROWS_PER_PASS / ROWS_PER_STAGE;
  ColumnAccumulators<T, Op, W> accum(transform);
  const int rows = SINGLE_PASS ? IN_REGISTERS_ROWS_PER_PASS
                               : static_cast<int>(std::bit_ceil(static_cast<unsigned>(count)));
#pragma unroll 1
  for (int row = 0; row < rows; row += IN_REGISTERS_ROWS_PER_PASS) {
    RowVector<T, W> loaded[IN_REGISTERS_ROWS_PER_PASS];
#pragma unroll
    for (int r = 0; r < IN_REGISTERS_ROWS_PER_PASS; ++r) {
      loaded[r] = transform.template identity<W>();
      if (row + r < count) loaded[r] = load_words<W>(column + row_offset(row + r));
    }
#pragma unroll
    for (int p = 0; p < GROUPS; ++p) {
      accum.begin_group();
#pragma unroll
      for (int r = 0; r < ROWS_PER_STAGE; ++r) accum.add(r, loaded[p * ROWS_PER_STAGE + r]);
      accum.end_group(SINGLE_PASS ? p : row / ROWS_PER_STAGE + p);
    }
  }
  return accum;
}

/// Launch bound: as many blocks per SM as the registers of a thread allow.
template <typename T, typename Op, int W, bool SINGLE_PASS>
constexpr int in_registers_min_blocks_per_sm() {
  constexpr int MAX_BLOCKS_PER_SM = BOUND_THREADS_PER_SM / THREADS;
  if (W == 1) return MAX_BLOCKS_PER_SM;
  if (!SINGLE_PASS) return 3;
  const bool fits_five = std::is_same_v<Op, Sum> && (!std::is_integral_v<T> || sizeof(T) == 1);
  return std::min(MAX_BLOCKS_PER_SM, fits_five ? 5 : 4);
}

template <typename T, typename Op, int W, bool SINGLE_PASS>
__global__ void __launch_bounds__(THREADS,
                                  (in_registers_min_blocks_per_sm<T, Op, W, SINGLE_PASS>()))
    column_in_registers_kernel(const __grid_constant__ ColumnInRegistersParams params) {
  constexpr int PITCH = THREADS + 128 / sizeof(ThreadPartial<T>) / W;
  __shared__ Tile<ThreadPartial<T>, W, PITCH> partials;
  const Problem& problem = params.problem;
  const int64_t first = int64_t{blockIdx.x} * THREADS * W;
  const int64_t output = first + threadIdx.x * W;

  launch_dependent_grids();
  wait_on_dependent_grids();
  const OrderTransform<T, Op> transform(problem);
  ColumnAccumulators<T, Op, W> accum(transform);
  Offsets<TENSORS> at{};
  if (output < problem.output_count) {
    at = offsets_at(problem.outputs, output);
    const auto* const column = static_cast<const T*>(problem.in) + at.of[IN];
    const auto reduce = [&](const auto& row_offset) {
      return reduce_in_registers<T, Op, W, SINGLE_PASS>(column, row_offset,
                                                        static_cast<int>(problem.count), transform);
    };
    const auto along_one_loop = [&](int row) { return row * problem.reduced.stride[IN][0]; };
    // Rows along one loop do not wait for the table, which would take small problems 0.15 us, and a
    // single pass of few rows would take 6% longer with the choice.
    if constexpr (SINGLE_PASS) {
      accum = reduce(along_one_loop);
    } else {
      accum = problem.reduced.rank <= 1 ? reduce(along_one_loop)
                                        : reduce([&](int row) { return params.row_offset[row]; });
    }
  }
  if constexpr (W == 1) {
    if (output < problem.output_count) {
      store_result_at(problem, at.of[OUT], transform.invert(Partial<Op, T>(accum.partial(0))));
    }
  } else {
    if constexpr (!std::is_integral_v<T>) {
      if (params.store_vectors) {
        if (output >= problem.output_count) return;
        Vector<T, W> results;
#pragma unroll
        for (int c = 0; c < W; ++c) {
          const auto partial = transform.invert(Partial<Op, T>(accum.partial(c)));
          results.lane[c] = from_accumulator<T>(static_cast<Accumulator<T>>(partial));
        }
        store_global_vector<W>(static_cast<T*>(problem.out) + at.of[OUT], results);
        return;
      }
    }
#pragma unroll
    for (int c = 0; c < W; ++c) partials(c, threadIdx.x) = accum.partial(c);
    __syncthreads();
#pragma unroll 1
    for (int c = threadIdx.x; c < THREADS * W && first + c < problem.output_count; c += THREADS) {
      store_result(problem, first + c, 0,
                   transform.invert(Partial<Op, T>(ThreadPartial<T>(partials(c % W, c / W)))));
    }
  }
}

/// Returns whether the results have x's dtype and can be stored as aligned vectors of `width`.
inline bool can_store_vectors(const Problem& problem, int width) {
  const int inner = problem.outputs.rank - 1;
  bool vectors = inner >= 0 && problem.out_dtype == problem.in_dtype && problem.divisor == 1 &&
                 problem.outputs.stride[OUT][inner] == 1 &&
                 reinterpret_cast<uintptr_t>(problem.out) % 16 == 0;
  for (int d = 0; d < inner; ++d) vectors &= problem.outputs.stride[OUT][d] % width == 0;
  return vectors;
}

}  // namespace smem::reduce::inline SMEM_BUILD
