// ColumnsParams of few elements: up to the 2^5 thread_partials above which accum widen, of an
// element each. A thread has whole columns, a vector of them where columns are vectors, and takes
// their rows by eight into registers. Nobody waits for anybody, and a block lives for one wait:
// many blocks a SM have as much under way as memory asks for.
#pragma once

#include <algorithm>

#include "device/pdl.h"
#include "reduce/column_accumulators.h"
#include "reduce/column_thread_map.h"
#include "reduce/store.h"
#include "reduce/thread_reduce.h"

namespace smem::reduce {
inline namespace SMEM_BUILD {

constexpr int IN_REGISTERS_MAX_ROWS = 1 << FP32_LEVELS, IN_REGISTERS_ROWS_PER_PASS = 8;

struct ColumnInRegistersParams {
  Problem problem;
  bool store_vectors;  ///< results are elements as x's, in whole vectors where x's are
};

/// What the columns of a vector come to. SINGLE_PASS: of no more than IN_REGISTERS_ROWS_PER_PASS
/// rows.
template <typename T, typename Op, int W, bool SINGLE_PASS>
__device__ __forceinline__ ColumnAccumulators<T, Op, W> reduce_in_registers(
    const T* column, int64_t step, int count, const OrderTransform<T, Op>& transform) {
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
      if (row + r < count) loaded[r] = load_words<W>(column + (row + r) * step);
    }
#pragma unroll
    for (int p = 0; p < GROUPS; ++p) {
      accum.begin();
#pragma unroll
      for (int r = 0; r < ROWS_PER_STAGE; ++r) accum.add(r, loaded[p * ROWS_PER_STAGE + r]);
      accum.end(SINGLE_PASS ? p : row / ROWS_PER_STAGE + p);
    }
  }
  return accum;
}

/// Blocks an SM, as many as the registers that a thread needs let it have; before sm_80
/// it has 1024 threads.
template <typename T, typename Op, int W, bool SINGLE_PASS>
constexpr int in_registers_min_blocks_per_sm() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  constexpr int MOST = 1024 / THREADS;
#else
  constexpr int MOST = 6;
#endif
  if (W == 1) return MOST;
  if (!SINGLE_PASS) return 3;
  const bool five = std::is_same_v<Op, Sum> && (!std::is_integral_v<T> || sizeof(T) == 1);
  return std::min(MOST, five ? 5 : 4);
}

template <typename T, typename Op, int W, bool SINGLE_PASS>
__global__ void __launch_bounds__(THREADS,
                                  (in_registers_min_blocks_per_sm<T, Op, W, SINGLE_PASS>()))
    column_in_registers_kernel(const __grid_constant__ ColumnInRegistersParams columns) {
  constexpr int PITCH = THREADS + 128 / sizeof(ThreadPartial<T>) / W;
  __shared__ Tile<ThreadPartial<T>, W, PITCH> partials;
  const Problem& problem = columns.problem;
  const int64_t first = int64_t{blockIdx.x} * THREADS * W;
  const int64_t output = first + threadIdx.x * W;

  launch_dependent_grids();
  wait_on_dependent_grids();
  const OrderTransform<T, Op> transform(problem);
  ColumnAccumulators<T, Op, W> accum(transform);
  Offsets<TENSORS> at{};
  if (output < problem.output_count) {
    at = offsets_at(problem.outputs, output);
    accum = reduce_in_registers<T, Op, W, SINGLE_PASS>(
        static_cast<const T*>(problem.in) + at.of[IN], problem.reduced.stride[IN][0],
        static_cast<int>(problem.count), transform);
  }
  if constexpr (W == 1) {
    if (output < problem.output_count) {
      store_result_at(problem, at.of[OUT], transform.invert(Partial<Op, T>(accum.partial(0))));
    }
  } else {
    if constexpr (!std::is_integral_v<T>) {
      if (columns.store_vectors) {
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

/// Whether the results are elements as x's, side by side in whole vectors.
inline bool can_store_vectors(const Problem& problem, int width) {
  const int inner = problem.outputs.rank - 1;
  bool vectors = inner >= 0 && problem.out_dtype == problem.in_dtype && problem.divisor == 1 &&
                 problem.outputs.stride[OUT][inner] == 1 &&
                 reinterpret_cast<uintptr_t>(problem.out) % 16 == 0;
  for (int d = 0; d < inner; ++d) vectors &= problem.outputs.stride[OUT][d] % width == 0;
  return vectors;
}

}  // namespace SMEM_BUILD
}  // namespace smem::reduce
