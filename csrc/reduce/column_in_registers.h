// Columns of few elements: up to the 2^5 leaves above which sums widen, of an element each. A
// thread has whole columns, a vector of them where columns are vectors, and takes their rows by
// eight into registers. Nobody waits for anybody, and a block lives for one wait: many blocks a
// SM have as much under way as memory asks for.
#pragma once

#include <algorithm>

#include "device/pdl.h"
#include "reduce/column_thread_map.h"
#include "reduce/column_accumulators.h"
#include "reduce/thread_reduce.h"
#include "reduce/store.h"

namespace smem::reduce {
inline namespace SMEM_BUILD {

constexpr int SHORT_COLUMN = 1 << NARROW_LEVELS, SHORT_ROWS = 8;

struct ShortColumns {
  Problem problem;
  bool vectors_out;  ///< results are elements as x's, in whole vectors where x's are
};

/// What the columns of a vector come to. ONCE: of no more than SHORT_ROWS rows.
template <typename T, typename Op, int W, bool ONCE>
__device__ __forceinline__ ColumnSums<T, Op, W> sum_short(const T* column, int64_t step, int count,
                                                          const Turn<T, Op>& turn) {
  constexpr int PARTS = SHORT_ROWS / STAGE_ROWS;
  ColumnSums<T, Op, W> sums(turn);
  const int rows =
      ONCE ? SHORT_ROWS : static_cast<int>(std::bit_ceil(static_cast<unsigned>(count)));
#pragma unroll 1
  for (int row = 0; row < rows; row += SHORT_ROWS) {
    RowVector<T, W> loaded[SHORT_ROWS];
#pragma unroll
    for (int r = 0; r < SHORT_ROWS; ++r) {
      loaded[r] = turn.template identity<W>();
      if (row + r < count) loaded[r] = load_words<W>(column + (row + r) * step);
    }
#pragma unroll
    for (int p = 0; p < PARTS; ++p) {
      sums.begin();
#pragma unroll
      for (int r = 0; r < STAGE_ROWS; ++r) sums.add(r, loaded[p * STAGE_ROWS + r]);
      sums.end(ONCE ? p : row / STAGE_ROWS + p);
    }
  }
  return sums;
}

/// Blocks an SM, as many as the registers that a thread needs let it have; before sm_80
/// it has 1024 threads.
template <typename T, typename Op, int W, bool ONCE>
constexpr int short_column_blocks() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  constexpr int MOST = 1024 / THREADS;
#else
  constexpr int MOST = 6;
#endif
  if (W == 1) return MOST;
  if (!ONCE) return 3;
  const bool five = std::is_same_v<Op, Sum> && (!std::is_integral_v<T> || sizeof(T) == 1);
  return std::min(MOST, five ? 5 : 4);
}

template <typename T, typename Op, int W, bool ONCE>
__global__ void __launch_bounds__(THREADS, (short_column_blocks<T, Op, W, ONCE>()))
    short_columns_kernel(const __grid_constant__ ShortColumns columns) {
  constexpr int PITCH = THREADS + 128 / sizeof(Leaf<T>) / W;
  __shared__ Tile<Leaf<T>, W, PITCH> nodes;
  const Problem& problem = columns.problem;
  const int64_t first = int64_t{blockIdx.x} * THREADS * W;
  const int64_t output = first + threadIdx.x * W;

  launch_dependent_grids();
  wait_on_dependent_grids();
  const Turn<T, Op> turn(problem);
  ColumnSums<T, Op, W> sums(turn);
  Offsets<TENSORS> at{};
  if (output < problem.output_count) {
    at = offsets_at(problem.outputs, output);
    sums = sum_short<T, Op, W, ONCE>(static_cast<const T*>(problem.in) + at.of[IN],
                                     problem.reduced.stride[IN][0], static_cast<int>(problem.count),
                                     turn);
  }
  if constexpr (W == 1) {
    if (output < problem.output_count) {
      put_result_at(problem, at.of[OUT], turn.back(Node<Op, T>(sums.node(0))));
    }
  } else {
    if constexpr (!std::is_integral_v<T>) {
      if (columns.vectors_out) {
        if (output >= problem.output_count) return;
        Vector<T, W> results;
#pragma unroll
        for (int c = 0; c < W; ++c) {
          const auto node = turn.back(Node<Op, T>(sums.node(c)));
          results.lane[c] = from_accumulator<T>(static_cast<Accumulator<T>>(node));
        }
        store_global_vector<W>(static_cast<T*>(problem.out) + at.of[OUT], results);
        return;
      }
    }
#pragma unroll
    for (int c = 0; c < W; ++c) nodes(c, threadIdx.x) = sums.node(c);
    __syncthreads();
#pragma unroll 1
    for (int c = threadIdx.x; c < THREADS * W && first + c < problem.output_count; c += THREADS) {
      put_result(problem, first + c, 0, turn.back(Node<Op, T>(Leaf<T>(nodes(c % W, c / W)))));
    }
  }
}

/// Whether the results are elements as x's, side by side in whole vectors.
inline bool results_are_vectors(const Problem& problem, int width) {
  const int inner = problem.outputs.rank - 1;
  bool vectors = inner >= 0 && problem.out_dtype == problem.in_dtype && problem.divisor == 1 &&
                 problem.outputs.stride[OUT][inner] == 1 &&
                 reinterpret_cast<uintptr_t>(problem.out) % 16 == 0;
  for (int d = 0; d < inner; ++d) vectors &= problem.outputs.stride[OUT][d] % width == 0;
  return vectors;
}

}  // namespace SMEM_BUILD
}  // namespace smem::reduce
