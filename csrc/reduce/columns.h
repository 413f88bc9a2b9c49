// columns: reductions across rows, for outputs that are neighbours in memory.
//
// Problem: out[o] = op over the elements of column o, for any strides.
//
// Threads: a thread owns one column or a vector of neighbouring columns and goes down the rows. If
// there are few columns, several threads and several blocks (splits) share the rows of a column
// (reduce/column_thread_map.h); a second launch combines the partials of the splits.
//
// There are six kernels, one per value of ColumnKernel:
//   in_registers   column_in_registers_kernel             reduce/column_in_registers.h
//   narrow         narrow_columns_kernel                  reduce/narrow_columns.h
//   per_thread     column_per_thread_kernel, column_pair_per_thread_kernel
//                                                         reduce/column_per_thread.h
//   aligned        aligned_columns_kernel                 reduce/column_multistage.h
//   unaligned      unaligned_columns_kernel               reduce/column_unaligned.h
//   batched        batched_columns_kernel                 reduce/thread_reduce_batched.h
//
// Order of additions: reduce/reduction_tree.h, for all of them. Which kernel takes a problem, its
// thread map and its launch bounds may be changed without changing a bit of the results.
#pragma once

#include "device/pdl.h"
#include "reduce/column_in_registers.h"
#include "reduce/column_multistage.h"
#include "reduce/column_per_thread.h"
#include "reduce/column_unaligned.h"
#include "reduce/layout.h"
#include "reduce/narrow_columns.h"
#include "reduce/store.h"
#include "reduce/thread_reduce_batched.h"

namespace smem::reduce::inline SMEM_BUILD {

/// The partials of a block's columns in shared memory: one row per column of a thread's vector. The
/// pitch is padded so that neighbouring columns are in different banks.
template <typename T, typename Op>
constexpr int PARTIALS_PITCH = THREADS + 128 / sizeof(BlockPartial<T, Op>) / VECTOR_WIDTH<T>;
template <typename T, typename Op>
using ColumnPartials = Tile<BlockPartial<T, Op>, VECTOR_WIDTH<T>, PARTIALS_PITCH<T, Op>>;

/// Reduces the rows of all threads of a block. Returns the partials of the block's columns, in
/// shared memory: those of thread x of the columns are in column x of the result.
template <typename T, typename Op, typename Rows>
__device__ __forceinline__ ColumnPartials<T, Op>& reduce_columns_multistage(
    const Problem& problem, const ColumnThread<VECTOR_WIDTH<T>>& thread, const Rows& rows) {
  constexpr int W = VECTOR_WIDTH<T>;
  ColumnAccumulators<T, Op> accum(OrderTransform<T, Op>{problem});
  reduce_multistage(rows, accum, thread.partials_per_thread / ROWS_PER_STAGE,
                    rounds_of(problem, problem.count));
  using Acc = BlockPartial<T, Op>;
  Acc partial[W];
#pragma unroll
  for (int c = 0; c < W; ++c) partial[c] = Acc(accum.partial(c));

  __syncthreads();  // the stages in shared memory are free from here on
  auto& partials = *reinterpret_cast<ColumnPartials<T, Op>*>(dynamic_shared<Acc>());
  thread.template join<T, Op>(partial, partials);
  if (thread.y == 0) {
#pragma unroll
    for (int c = 0; c < W; ++c) partials(c, threadIdx.x) = partial[c];
  }
  __syncthreads();
  return partials;
}

struct ColumnsParams {
  Problem problem;
  ColumnThreadMap map;
};

template <typename T, typename Op>
__global__ void __launch_bounds__(THREADS, MULTISTAGE_MIN_BLOCKS_PER_SM)
    aligned_columns_kernel(const __grid_constant__ ColumnsParams params) {
  constexpr int W = VECTOR_WIDTH<T>;
  const Problem& problem = params.problem;
  const ColumnThread<W> thread(params.map);
  const bool exists = thread.output < problem.output_count;
  const int64_t column = exists ? offsets_at(problem.outputs, thread.output).of[IN] : 0;
  const AlignedRowLoader<T> rows(problem, static_cast<const T*>(problem.in) + column,
                                 first_element(problem, thread.first_partial()), exists);

  launch_dependent_grids();
  wait_on_dependent_grids();
  auto& partials = reduce_columns_multistage<T, Op>(problem, thread, rows);
  const int block_columns = thread.threads_x * W;
  const int64_t first = int64_t{blockIdx.x % params.map.grid_x} * block_columns;
#pragma unroll 1
  for (int c = threadIdx.x; c < block_columns; c += THREADS) {
    if (first + c >= problem.output_count) return;
    const Partial<Op, T> partial(BlockPartial<T, Op>(partials(c % W, c / W)));
    store_result(problem, first + c, thread.split, OrderTransform<T, Op>(problem).invert(partial));
  }
}

struct UnalignedColumnsParams {
  Problem problem;
  UnalignedThreadMap map;
};

template <typename T, typename Op>
__global__ void __launch_bounds__(THREADS, MULTISTAGE_MIN_BLOCKS_PER_SM)
    unaligned_columns_kernel(const __grid_constant__ UnalignedColumnsParams params) {
  constexpr int W = VECTOR_WIDTH<T>;
  const Problem& problem = params.problem;
  const ColumnThread<W> thread(params.map.block);
  const UnalignedRowLoader<T> rows(problem, params.map,
                                   first_element(problem, thread.first_partial()));

  launch_dependent_grids();
  wait_on_dependent_grids();
  auto& partials = reduce_columns_multistage<T, Op>(problem, thread, rows);
  const int threads_y = THREADS / thread.threads_x;
#pragma unroll 1
  for (int c = thread.y; c < W && rows.has(c); c += threads_y) {
    const int x = static_cast<int>(threadIdx.x) % thread.threads_x;
    store_result_at(
        problem, rows.out_offset(problem, c) + thread.split,
        OrderTransform<T, Op>(problem).invert(Partial<Op, T>(BlockPartial<T, Op>(partials(c, x)))));
  }
}

struct BatchedColumnsParams {
  Problem problem;
  ColumnThreadMap map;
  TwoLoops loops;
};

template <typename T, typename Op>
__global__ void __launch_bounds__(THREADS, COLUMNS_MIN_BLOCKS_PER_SM)
    batched_columns_kernel(const __grid_constant__ BatchedColumnsParams params) {
  using Acc = BlockPartial<T, Op>;
  __shared__ Tile<Acc, 1, THREADS> partials;
  const Problem& problem = params.problem;
  const ColumnThread<1> thread(params.map);
  const bool exists = thread.output < problem.output_count;

  launch_dependent_grids();
  wait_on_dependent_grids();
  Acc partial[1] = {};
  if (exists) {
    const T* const column =
        static_cast<const T*>(problem.in) + offsets_at(problem.outputs, thread.output).of[IN];
    partial[0] =
        Acc(BatchedThreadReduce<T, Op>(problem, params.loops, column)
                .reduce(thread.first_partial(), thread.partials_per_thread / PARTIALS_PER_GROUP));
  }
  thread.template join<T, Op>(partial, partials);
  if (thread.y == 0 && exists) {
    store_result(problem, thread.output, thread.split,
                 OrderTransform<T, Op>(problem).invert(Partial<Op, T>(partial[0])));
  }
}

namespace {

/// With fewer bytes of neighbouring outputs, half of a panel's lanes would be idle.
constexpr int64_t MIN_CONTIGUOUS_BYTES = 16 * MIN_PANEL_LANES / 2;

/// The kernels of `columns`. Their conditions overlap; column_kernel_of decides in a fixed order.
enum class ColumnKernel {
  in_registers,  ///< few rows: one thread per column, or per vector of columns, holds all rows
  narrow,        ///< few columns, many rows and no gap between rows
  per_thread,    ///< some hundred rows, and so many columns that a thread per column fills the GPU
  aligned,       ///< contiguous columns in whole, aligned vectors: cp.async, several stages
  unaligned,     ///< contiguous columns from any address on: cp.async, several stages
  batched,       ///< all else: element by element
};

/// Bytes of dynamic shared memory, which holds the stages of the pipeline first and the partials
/// afterwards.
template <typename T, typename Op>
size_t shared_bytes(size_t multistage_bytes) {
  return std::max(multistage_bytes, sizeof(ColumnPartials<T, Op>));
}

/// Returns whether column_pair_per_thread_kernel can take the problem and has enough columns.
bool can_pair_columns(const Problem& problem, const Device& device) {
  const bool are_floats = problem.in_dtype == DType::f16 || problem.in_dtype == DType::bf16;
  return are_floats && problem.count <= PARTIALS_PER_TILE && problem.outputs.rank == 1 &&
         problem.outputs.stride[IN][0] == 1 && problem.reduced.rank == 1 &&
         problem.output_count / device.sm_count >= PAIRS_MIN_COLUMNS_PER_SM;
}

/// Returns whether a thread per column is faster than `alternative`, the kernel for this layout.
bool prefer_per_thread(const Problem& problem, const Device& device, ColumnKernel alternative) {
  if (problem.reduced.rank != 1 || problem.elements_per_partial != ELEMENTS_PER_PARTIAL)
    return false;
  const size_t bytes = size_of(problem.in_dtype);
  const bool few_elements = problem.count * problem.output_count <= PER_THREAD_MAX_ELEMENTS;
  const int64_t columns_per_sm = problem.output_count / device.sm_count;
  if (alternative == ColumnKernel::aligned) {
    if (bytes == 1 || problem.count > PARTIALS_PER_TILE) return false;
    return bytes == 2 ? columns_per_sm / COLUMN_VEC<bfloat16> >= 2 * PER_THREAD_MIN_THREADS_PER_SM
                      : few_elements && columns_per_sm >= 2 * PER_THREAD_MIN_THREADS_PER_SM;
  }
  if (alternative == ColumnKernel::unaligned && can_pair_columns(problem, device)) return true;
  if (alternative == ColumnKernel::unaligned && (bytes == 1 || (bytes == 2 && !few_elements)))
    return false;
  // Half the rows of 2-byte elements with an odd stride begin inside a word: 1000 x 37719 takes
  // 52 us, and the multistage kernel 40; with an even stride (1000 x 37320) these are 36 and 44.
  const bool is_odd = bytes == 2 && problem.reduced.stride[IN][0] % 2 != 0;
  const int min_threads_per_sm = is_odd && problem.count > PARTIALS_PER_TILE
                                     ? 2 * PER_THREAD_MIN_THREADS_PER_SM
                                     : PER_THREAD_MIN_THREADS_PER_SM;
  return problem.count <= PER_THREAD_MAX_ROWS && columns_per_sm >= min_threads_per_sm;
}

/// The kernel that the strides of the outputs call for: `aligned` if it can read whole vectors,
/// `unaligned` if enough neighbouring outputs are contiguous and the stages fit shared memory (they
/// do from sm_80 on), else `batched`.
ColumnKernel layout_kernel_of(const Problem& problem, const Device& device) {
  if (problem.reduced.rank > 1) return ColumnKernel::batched;
  const int inner = problem.outputs.rank - 1;
  const auto bytes = static_cast<int64_t>(size_of(problem.in_dtype));
  if (columns_are_vectors(problem, static_cast<int>(16 / bytes))) return ColumnKernel::aligned;
  const bool contiguous = inner >= 0 && problem.outputs.stride[IN][inner] == 1 &&
                          problem.outputs.size[inner] * bytes >= MIN_CONTIGUOUS_BYTES;
  return contiguous && panel_shared_bytes(MIN_PANEL_LANES) <= device.shared_bytes
             ? ColumnKernel::unaligned
             : ColumnKernel::batched;
}

/// Decides in this order; the first condition that holds counts:
///   1. in_registers   there are at most IN_REGISTERS_MAX_ROWS rows
///   2. narrow         the rows are narrow, follow each other without gaps, and there are many
///   3. per_thread     prefer_per_thread finds it faster than the kernel of step 4
///   4. layout_kernel_of: aligned, unaligned or batched
ColumnKernel column_kernel_of(const Problem& problem, const Device& device) {
  if (problem.count <= IN_REGISTERS_MAX_ROWS) return ColumnKernel::in_registers;
  if (columns_are_narrow(problem, device)) return ColumnKernel::narrow;
  const ColumnKernel alternative = layout_kernel_of(problem, device);
  return prefer_per_thread(problem, device, alternative) ? ColumnKernel::per_thread : alternative;
}

ColumnThreadMap aligned_thread_map(const Problem& problem, const Device& device) {
  const auto width = static_cast<int64_t>(16 / size_of(problem.in_dtype));
  const int64_t vectors = problem.output_count / width;
  const int64_t max_threads_x = std::min<int64_t>(MAX_THREADS_X, next_power_of_two(vectors));
  return multistage_thread_map(problem, device, vectors,
                               std::min<int64_t>(THREADS_PER_LINE, max_threads_x), max_threads_x);
}

int64_t splits_of(const Problem& problem, const Device& device) {
  switch (column_kernel_of(problem, device)) {
    case ColumnKernel::in_registers:
    case ColumnKernel::per_thread:
      return 1;
    case ColumnKernel::narrow:
      return narrow_params(problem, device).splits();
    case ColumnKernel::aligned:
      return aligned_thread_map(problem, device).splits;
    case ColumnKernel::unaligned:
      return unaligned_thread_map(problem, device).block.splits;
    default:
      return batched_thread_map(problem, device).splits;
  }
}

template <typename T, typename Op>
void launch_aligned(const Problem& problem, const Device& device) {
  const ColumnThreadMap map = aligned_thread_map(problem, device);
  launch_blocks("columns", aligned_columns_kernel<T, Op>, map.blocks(), device,
                ColumnsParams{problem, map},
                shared_bytes<T, Op>(AlignedRowLoader<T>::SHARED_BYTES));
}

template <typename T, typename Op>
void launch_unaligned(const Problem& problem, const Device& device) {
  const UnalignedThreadMap map = unaligned_thread_map(problem, device);
  launch_blocks("columns", unaligned_columns_kernel<T, Op>, map.block.blocks(), device,
                UnalignedColumnsParams{problem, map}, shared_bytes<T, Op>(map.shared_bytes()));
}

template <typename T, typename Op, int W>
void launch_per_thread(const Problem& problem, const Device& device) {
  launch_blocks("columns", column_per_thread_kernel<T, Op, W>,
                ceil_div(problem.output_count, THREADS * W), device,
                ColumnPerThreadParams{problem, can_store_vectors(problem, W)});
}

template <typename T, typename Op>
void launch_pairs(const Problem& problem, const Device& device) {
  launch_blocks("columns", column_pair_per_thread_kernel<T, Op>,
                ceil_div(problem.output_count, 2 * PAIRS_PER_WARP * WARPS), device,
                ColumnPerThreadParams{problem, false});
}

template <typename T, typename Op, int W>
void launch_in_registers(const Problem& problem, const Device& device) {
  launch_blocks("columns",
                problem.count <= IN_REGISTERS_ROWS_PER_PASS && problem.reduced.rank <= 1
                    ? column_in_registers_kernel<T, Op, W, true>
                    : column_in_registers_kernel<T, Op, W, false>,
                ceil_div(problem.output_count, THREADS * W), device,
                ColumnInRegistersParams{problem, can_store_vectors(problem, W)});
}

template <typename T, typename Op>
void run_per_thread(const Problem& problem, const Device& device) {
  if constexpr (sizeof(T) == 2) {
    if (columns_are_vectors(problem, VECTOR_WIDTH<T>)) {
      return launch_per_thread<T, Op, COLUMN_VEC<T>>(problem, device);
    }
    if constexpr (!std::is_integral_v<T>) {
      if (can_pair_columns(problem, device)) return launch_pairs<T, Op>(problem, device);
    }
  }
  return launch_per_thread<T, Op, 1>(problem, device);
}

template <typename T, typename Op>
void launch_narrow(const Problem& problem, const Device& device) {
  const NarrowColumnsParams narrow = narrow_params(problem, device);
  launch_blocks("columns", narrow_columns_kernel<T, Op>, narrow.blocks(), device, narrow,
                narrow_dynamic_bytes<T>(narrow.tiles, narrow.columns));
}

template <typename T, typename Op>
void launch_batched(const Problem& problem, const Device& device) {
  const ColumnThreadMap map = batched_thread_map(problem, device);
  launch_blocks("columns", batched_columns_kernel<T, Op>, map.blocks(), device,
                BatchedColumnsParams{problem, map, TwoLoops(problem)});
}

}  // namespace

template <typename Op>
void launch_columns(const Problem& problem, const Device& device) {
  with_element_type(problem.in_dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    switch (column_kernel_of(problem, device)) {
      case ColumnKernel::in_registers:
        return columns_are_vectors(problem, VECTOR_WIDTH<T>)
                   ? launch_in_registers<T, Op, VECTOR_WIDTH<T>>(problem, device)
                   : launch_in_registers<T, Op, 1>(problem, device);
      case ColumnKernel::per_thread:
        return run_per_thread<T, Op>(problem, device);
      case ColumnKernel::narrow:
        return launch_narrow<T, Op>(problem, device);
      case ColumnKernel::aligned:
        return launch_aligned<T, Op>(problem, device);
      case ColumnKernel::unaligned:
        return launch_unaligned<T, Op>(problem, device);
      default:
        return launch_batched<T, Op>(problem, device);
    }
  });
}

}  // namespace smem::reduce::inline SMEM_BUILD
