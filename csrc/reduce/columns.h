// columns: threads own outputs and run down their elements.
//
// For outputs whose neighbours are neighbours in memory: 16 bytes of a row at a time through a
// multistage_bytes in shared memory (reduce/column_multistage.h), wherever rows begin
// (reduce/column_unaligned.h). Few columns without gaps between rows are one run
// (reduce/narrow_columns.h), few rows need no multistage_bytes (reduce/column_in_registers.h), nor
// do some hundred rows of many columns (reduce/column_per_thread.h). All else goes element by
// element (reduce/thread_reduce_batched.h).
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

namespace smem::reduce {
inline namespace SMEM_BUILD {

/// What a block's columns come to: of the threads side by side, the partials of each one's columns,
/// padded so that those of neighbouring columns lie in different banks.
template <typename T, typename Op>
constexpr int PARTIALS_PITCH = THREADS + 128 / sizeof(BlockPartial<T, Op>) / VECTOR_WIDTH<T>;
template <typename T, typename Op>
using ColumnPartials = Tile<BlockPartial<T, Op>, VECTOR_WIDTH<T>, PARTIALS_PITCH<T, Op>>;

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

  __syncthreads();  // the multistage_bytes is free
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
    aligned_columns_kernel(const __grid_constant__ ColumnsParams columns) {
  constexpr int W = VECTOR_WIDTH<T>;
  const Problem& problem = columns.problem;
  const ColumnThread<W> thread(columns.map);
  const bool exist = thread.output < problem.output_count;
  const int64_t column = exist ? offsets_at(problem.outputs, thread.output).of[IN] : 0;
  const AlignedRowLoader<T> rows(problem, static_cast<const T*>(problem.in) + column,
                                 first_element(problem, thread.first_partial()), exist);

  launch_dependent_grids();
  wait_on_dependent_grids();
  auto& partials = reduce_columns_multistage<T, Op>(problem, thread, rows);
  const int block_columns = thread.threads_x * W;
  const int64_t first = int64_t{blockIdx.x % columns.map.grid_x} * block_columns;
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
    unaligned_columns_kernel(const __grid_constant__ UnalignedColumnsParams panels) {
  constexpr int W = VECTOR_WIDTH<T>;
  const Problem& problem = panels.problem;
  const ColumnThread<W> thread(panels.map.block);
  const UnalignedRowLoader<T> rows(problem, panels.map,
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

template <typename T, typename Op>
__global__ void __launch_bounds__(THREADS, COLUMNS_MIN_BLOCKS_PER_SM)
    batched_columns_kernel(const __grid_constant__ ColumnsParams columns) {
  using Acc = BlockPartial<T, Op>;
  __shared__ Tile<Acc, 1, THREADS> partials;
  const Problem& problem = columns.problem;
  const ColumnThread<1> thread(columns.map);
  const bool exists = thread.output < problem.output_count;

  launch_dependent_grids();
  wait_on_dependent_grids();
  Acc partial[1] = {};
  if (exists) {
    const T* const column =
        static_cast<const T*>(problem.in) + offsets_at(problem.outputs, thread.output).of[IN];
    partial[0] =
        Acc(BatchedThreadReduce<T, Op>(problem, column)
                .reduce(thread.first_partial(), thread.partials_per_thread / PARTIALS_PER_GROUP));
  }
  thread.template join<T, Op>(partial, partials);
  if (thread.y == 0 && exists) {
    store_result(problem, thread.output, thread.split,
                 OrderTransform<T, Op>(problem).invert(Partial<Op, T>(partial[0])));
  }
}

namespace {

/// Shorter runs of neighbouring outputs would leave half of a panel's lanes idle.
constexpr int64_t MIN_CONTIGUOUS_BYTES = 16 * MIN_PANEL_LANES / 2;

/// The kernels of `columns`. Their conditions overlap: column_kernel_of tests them in this order
/// and takes the first one that holds.
enum class ColumnKernel {
  in_registers,  ///< few rows: one thread per column, or per vector of columns, holds all rows
  narrow,        ///< few columns, many rows and no gap between rows
  per_thread,    ///< some hundred rows, and so many columns that a thread per column fills the GPU
  aligned,       ///< contiguous columns in whole, aligned vectors: cp.async, several stages
  unaligned,     ///< contiguous columns from any address on: cp.async, several stages
  batched,       ///< all else: element by element
};

/// Of the multistage_bytes, and after it of the partials.
template <typename T, typename Op>
size_t shared_bytes(size_t multistage_bytes) {
  return std::max(multistage_bytes, sizeof(ColumnPartials<T, Op>));
}

/// Whether they are neighbours, floats of 2 bytes, and so many that a thread takes two of them.
bool columns_are_pairs(const Problem& problem, const Device& device) {
  const bool are_floats = problem.in_dtype == DType::f16 || problem.in_dtype == DType::bf16;
  return are_floats && problem.count <= PARTIALS_PER_TILE && problem.outputs.rank == 1 &&
         problem.outputs.stride[IN][0] == 1 && problem.reduced.rank == 1 &&
         problem.output_count / device.sm_count >= PAIRS_MIN_COLUMNS_PER_SM;
}

/// Whether threads that take columns alone are faster than what there is for columns that lie so.
bool prefer_per_thread(const Problem& problem, const Device& device, ColumnKernel lie) {
  if (problem.reduced.rank != 1 || problem.elements_per_partial != ELEMENTS_PER_PARTIAL)
    return false;
  const size_t bytes = size_of(problem.in_dtype);
  const bool few = problem.count * problem.output_count <= PER_THREAD_MAX_ELEMENTS;
  const int64_t columns = problem.output_count / device.sm_count;
  if (lie == ColumnKernel::aligned) {
    if (bytes == 1 || problem.count > PARTIALS_PER_TILE) return false;
    return bytes == 2 ? columns / COLUMN_VEC<bfloat16> >= 2 * PER_THREAD_MIN_THREADS_PER_SM
                      : few && columns >= 2 * PER_THREAD_MIN_THREADS_PER_SM;
  }
  if (lie == ColumnKernel::unaligned && columns_are_pairs(problem, device)) return true;
  if (lie == ColumnKernel::unaligned && (bytes == 1 || (bytes == 2 && !few))) return false;
  return problem.count <= PER_THREAD_MAX_ROWS && columns >= PER_THREAD_MIN_THREADS_PER_SM;
}

ColumnKernel layout_kernel_of(const Problem& problem, const Device& device) {
  const int inner = problem.outputs.rank - 1;
  const auto bytes = static_cast<int64_t>(size_of(problem.in_dtype));
  if (columns_are_vectors(problem, static_cast<int>(16 / bytes))) return ColumnKernel::aligned;
  const bool side_by_side = inner >= 0 && problem.outputs.stride[IN][inner] == 1 &&
                            problem.reduced.rank <= 1 &&
                            problem.outputs.size[inner] * bytes >= MIN_CONTIGUOUS_BYTES;
  return side_by_side && unaligned_thread_map(problem, device).shared_bytes() <= device.shared_bytes
             ? ColumnKernel::unaligned
             : ColumnKernel::batched;
}

ColumnKernel column_kernel_of(const Problem& problem, const Device& device) {
  if (problem.count <= IN_REGISTERS_MAX_ROWS && problem.reduced.rank == 1)
    return ColumnKernel::in_registers;
  if (columns_are_narrow(problem)) return ColumnKernel::narrow;
  const ColumnKernel lie = layout_kernel_of(problem, device);
  return prefer_per_thread(problem, device, lie) ? ColumnKernel::per_thread : lie;
}

ColumnThreadMap aligned_thread_map(const Problem& problem, const Device& device) {
  const auto width = static_cast<int64_t>(16 / size_of(problem.in_dtype));
  const int64_t vectors = problem.output_count / width;
  const int64_t most = std::min<int64_t>(MAX_THREADS_X, power_of_two_from(vectors));
  return multistage_thread_map(problem, device, vectors, std::min<int64_t>(THREADS_PER_LINE, most),
                               most);
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
  launch("columns", aligned_columns_kernel<T, Op>,
         {map.blocks(),
          {THREADS},
          shared_bytes<T, Op>(AlignedRowLoader<T>::SHARED_BYTES),
          problem.launch_with_pdl},
         device, ColumnsParams{problem, map});
}

template <typename T, typename Op>
void launch_unaligned(const Problem& problem, const Device& device) {
  const UnalignedThreadMap map = unaligned_thread_map(problem, device);
  launch("columns", unaligned_columns_kernel<T, Op>,
         {map.block.blocks(),
          {THREADS},
          shared_bytes<T, Op>(map.shared_bytes()),
          problem.launch_with_pdl},
         device, UnalignedColumnsParams{problem, map});
}

template <typename T, typename Op, int W>
void launch_per_thread(const Problem& problem, const Device& device) {
  launch("columns", column_per_thread_kernel<T, Op, W>,
         {ceil_div(problem.output_count, THREADS * W), {THREADS}, 0, problem.launch_with_pdl},
         device, ColumnPerThreadParams{problem, can_store_vectors(problem, W)});
}

template <typename T, typename Op>
void launch_pairs(const Problem& problem, const Device& device) {
  launch("columns", column_pair_per_thread_kernel<T, Op>,
         {ceil_div(problem.output_count, 2 * PAIRS_PER_WARP * WARPS),
          {THREADS},
          0,
          problem.launch_with_pdl},
         device, ColumnPerThreadParams{problem, false});
}

template <typename T, typename Op, int W>
void launch_in_registers(const Problem& problem, const Device& device) {
  launch("columns",
         problem.count <= IN_REGISTERS_ROWS_PER_PASS ? column_in_registers_kernel<T, Op, W, true>
                                                     : column_in_registers_kernel<T, Op, W, false>,
         {ceil_div(problem.output_count, THREADS * W), {THREADS}, 0, problem.launch_with_pdl},
         device, ColumnInRegistersParams{problem, can_store_vectors(problem, W)});
}

template <typename T, typename Op>
void run_per_thread(const Problem& problem, const Device& device) {
  if constexpr (sizeof(T) == 2) {
    if (columns_are_vectors(problem, VECTOR_WIDTH<T>)) {
      return launch_per_thread<T, Op, COLUMN_VEC<T>>(problem, device);
    }
    if constexpr (!std::is_integral_v<T>) {
      if (columns_are_pairs(problem, device)) return launch_pairs<T, Op>(problem, device);
    }
  }
  return launch_per_thread<T, Op, 1>(problem, device);
}

template <typename T, typename Op>
void launch_narrow(const Problem& problem, const Device& device) {
  const NarrowColumnsParams narrow = narrow_params(problem, device);
  const int thread_partials = narrow.tiles * PARTIALS_PER_TILE * narrow.columns;
  launch("columns", narrow_columns_kernel<T, Op>,
         {narrow.blocks(),
          {THREADS},
          narrow_smem_offset<T>(thread_partials) * sizeof(ThreadPartial<T>),
          problem.launch_with_pdl},
         device, narrow);
}

template <typename T, typename Op>
void launch_batched(const Problem& problem, const Device& device) {
  const ColumnThreadMap map = batched_thread_map(problem, device);
  launch("columns", batched_columns_kernel<T, Op>,
         {map.blocks(), {THREADS}, 0, problem.launch_with_pdl}, device,
         ColumnsParams{problem, map});
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

}  // namespace SMEM_BUILD
}  // namespace smem::reduce
