// columns: threads own outputs and run down their elements.
//
// For outputs whose neighbours are neighbours in memory: 16 bytes of a row at a time through a ring
// in shared memory (reduce/column_multistage.h), wherever rows begin (reduce/column_unaligned.h). Few columns
// without gaps between rows are one run (reduce/narrow_columns.h), few rows need no ring
// (reduce/column_in_registers.h), nor do some hundred rows of many columns (reduce/column_per_thread.h). All else
// goes element by element (reduce/thread_reduce_batched.h).
#pragma once

#include "device/pdl.h"
#include "reduce/column_multistage.h"
#include "reduce/layout.h"
#include "reduce/thread_reduce_batched.h"
#include "reduce/column_per_thread.h"
#include "reduce/narrow_columns.h"
#include "reduce/store.h"
#include "reduce/column_unaligned.h"
#include "reduce/column_in_registers.h"

namespace smem::reduce {
inline namespace SMEM_BUILD {

/// What a block's columns come to: of the threads side by side, the nodes of each one's columns,
/// padded so that those of neighbouring columns lie in different banks.
template <typename T, typename Op>
constexpr int NODES_PITCH = THREADS + 128 / sizeof(BlockNode<T, Op>) / VECTOR_WIDTH<T>;
template <typename T, typename Op>
using ColumnNodes = Tile<BlockNode<T, Op>, VECTOR_WIDTH<T>, NODES_PITCH<T, Op>>;

template <typename T, typename Op, typename Rows>
__device__ __forceinline__ ColumnNodes<T, Op>& sum_columns(
    const Problem& problem, const ColumnThread<VECTOR_WIDTH<T>>& thread, const Rows& rows) {
  constexpr int W = VECTOR_WIDTH<T>;
  ColumnSums<T, Op> sums(Turn<T, Op>{problem});
  sum_by_ring(rows, sums, thread.leaves_a_thread / STAGE_ROWS, rounds_of(problem, problem.count));
  using Acc = BlockNode<T, Op>;
  Acc node[W];
#pragma unroll
  for (int c = 0; c < W; ++c) node[c] = Acc(sums.node(c));

  __syncthreads();  // the ring is free
  auto& nodes = *reinterpret_cast<ColumnNodes<T, Op>*>(dynamic_shared<Acc>());
  thread.template join<T, Op>(node, nodes);
  if (thread.y == 0) {
#pragma unroll
    for (int c = 0; c < W; ++c) nodes(c, threadIdx.x) = node[c];
  }
  __syncthreads();
  return nodes;
}

struct Columns {
  Problem problem;
  ColumnsShape shape;
};

template <typename T, typename Op>
__global__ void __launch_bounds__(THREADS, RING_BLOCKS_AT_ONCE)
    aligned_columns_kernel(const __grid_constant__ Columns columns) {
  constexpr int W = VECTOR_WIDTH<T>;
  const Problem& problem = columns.problem;
  const ColumnThread<W> thread(columns.shape);
  const bool exist = thread.output < problem.output_count;
  const int64_t column = exist ? offsets_at(problem.outputs, thread.output).of[IN] : 0;
  const AlignedRows<T> rows(problem, static_cast<const T*>(problem.in) + column,
                            first_element(problem, thread.first_leaf()), exist);

  launch_dependent_grids();
  wait_on_dependent_grids();
  auto& nodes = sum_columns<T, Op>(problem, thread, rows);
  const int block_columns = thread.threads_across * W;
  const int64_t first = int64_t{blockIdx.x % columns.shape.tiles} * block_columns;
#pragma unroll 1
  for (int c = threadIdx.x; c < block_columns; c += THREADS) {
    if (first + c >= problem.output_count) return;
    const Node<Op, T> node(BlockNode<T, Op>(nodes(c % W, c / W)));
    put_result(problem, first + c, thread.chunk, Turn<T, Op>(problem).back(node));
  }
}

struct Strips {
  Problem problem;
  StripShape shape;
};

template <typename T, typename Op>
__global__ void __launch_bounds__(THREADS, RING_BLOCKS_AT_ONCE)
    shifted_columns_kernel(const __grid_constant__ Strips strips) {
  constexpr int W = VECTOR_WIDTH<T>;
  const Problem& problem = strips.problem;
  const ColumnThread<W> thread(strips.shape.block);
  const ShiftedRows<T> rows(problem, strips.shape, first_element(problem, thread.first_leaf()));

  launch_dependent_grids();
  wait_on_dependent_grids();
  auto& nodes = sum_columns<T, Op>(problem, thread, rows);
  const int above = THREADS / thread.threads_across;
#pragma unroll 1
  for (int c = thread.y; c < W && rows.has(c); c += above) {
    const int x = static_cast<int>(threadIdx.x) % thread.threads_across;
    put_result_at(problem, rows.place(problem, c) + thread.chunk,
                  Turn<T, Op>(problem).back(Node<Op, T>(BlockNode<T, Op>(nodes(c, x)))));
  }
}

template <typename T, typename Op>
__global__ void __launch_bounds__(THREADS, COLUMN_BLOCKS_AT_ONCE)
    columns_kernel(const __grid_constant__ Columns columns) {
  using Acc = BlockNode<T, Op>;
  __shared__ Tile<Acc, 1, THREADS> nodes;
  const Problem& problem = columns.problem;
  const ColumnThread<1> thread(columns.shape);
  const bool exists = thread.output < problem.output_count;

  launch_dependent_grids();
  wait_on_dependent_grids();
  Acc node[1] = {};
  if (exists) {
    const T* const column =
        static_cast<const T*>(problem.in) + offsets_at(problem.outputs, thread.output).of[IN];
    node[0] = Acc(LeafBatches<T, Op>(problem, column)
                      .reduce(thread.first_leaf(), thread.leaves_a_thread / GROUP));
  }
  thread.template join<T, Op>(node, nodes);
  if (thread.y == 0 && exists) {
    put_result(problem, thread.output, thread.chunk,
               Turn<T, Op>(problem).back(Node<Op, T>(node[0])));
  }
}

namespace {

/// Shorter runs of neighbouring outputs would leave half of a strip's lanes idle.
constexpr int64_t LEAST_RUN_BYTES = 16 * LEAST_LANES / 2;

/// How the neighbours of an output lie in memory.
enum class Neighbours {
  few_rows,  ///< as aligned or anywhere, and elements are so few that a thread takes them all
  narrow,    ///< few, and rows follow each other without gaps
  lone,      ///< as aligned, shifted or anywhere, and so many that a thread takes them alone
  aligned,   ///< side by side, in whole vectors at multiples of 16 bytes
  shifted,   ///< side by side, from anywhere on
  anywhere,  ///< apart, or few; or there is no room for a ring of strips (before sm_80)
};

/// Of the ring, and after it of the nodes.
template <typename T, typename Op>
size_t shared_bytes(size_t ring) {
  return std::max(ring, sizeof(ColumnNodes<T, Op>));
}

/// Whether they are neighbours, floats of 2 bytes, and so many that a thread takes two of them.
bool columns_are_pairs(const Problem& problem, const Device& device) {
  const bool are_floats = problem.in_dtype == DType::f16 || problem.in_dtype == DType::bf16;
  return are_floats && problem.count <= LANES && problem.outputs.rank == 1 &&
         problem.outputs.stride[IN][0] == 1 && problem.reduced.rank == 1 &&
         problem.output_count / device.sm_count >= LONE_PAIRS_COLUMNS;
}

/// Whether threads that take columns alone are faster than what there is for columns that lie so.
bool are_lone(const Problem& problem, const Device& device, Neighbours lie) {
  if (problem.reduced.rank != 1 || problem.chain != CHAIN) return false;
  const size_t bytes = size_of(problem.in_dtype);
  const bool few = problem.count * problem.output_count <= LONE_SMALL;
  const int64_t columns = problem.output_count / device.sm_count;
  if (lie == Neighbours::aligned) {
    if (bytes == 1 || problem.count > LANES) return false;
    return bytes == 2 ? columns / COLUMN_WIDTH<bfloat16> >= 2 * LONE_THREADS
                      : few && columns >= 2 * LONE_THREADS;
  }
  if (lie == Neighbours::shifted && columns_are_pairs(problem, device)) return true;
  if (lie == Neighbours::shifted && (bytes == 1 || (bytes == 2 && !few))) return false;
  return problem.count <= LONE_COLUMN && columns >= LONE_THREADS;
}

Neighbours layout_of(const Problem& problem, const Device& device) {
  const int inner = problem.outputs.rank - 1;
  const auto bytes = static_cast<int64_t>(size_of(problem.in_dtype));
  if (columns_are_vectors(problem, static_cast<int>(16 / bytes))) return Neighbours::aligned;
  const bool side_by_side = inner >= 0 && problem.outputs.stride[IN][inner] == 1 &&
                            problem.reduced.rank <= 1 &&
                            problem.outputs.size[inner] * bytes >= LEAST_RUN_BYTES;
  return side_by_side && strip_shape(problem, device).shared_bytes() <= device.shared_bytes
             ? Neighbours::shifted
             : Neighbours::anywhere;
}

Neighbours neighbours_of(const Problem& problem, const Device& device) {
  if (problem.count <= SHORT_COLUMN && problem.reduced.rank == 1) return Neighbours::few_rows;
  if (columns_are_narrow(problem)) return Neighbours::narrow;
  const Neighbours lie = layout_of(problem, device);
  return are_lone(problem, device, lie) ? Neighbours::lone : lie;
}

ColumnsShape aligned_shape(const Problem& problem, const Device& device) {
  const auto width = static_cast<int64_t>(16 / size_of(problem.in_dtype));
  const int64_t vectors = problem.output_count / width;
  const int64_t most = std::min<int64_t>(WIDEST, power_of_two_from(vectors));
  return ring_shape(problem, device, vectors, std::min<int64_t>(LINE_THREADS, most), most);
}

int64_t chunks_of(const Problem& problem, const Device& device) {
  switch (neighbours_of(problem, device)) {
    case Neighbours::few_rows:
    case Neighbours::lone:
      return 1;
    case Neighbours::narrow:
      return narrow_columns(problem, device).chunks();
    case Neighbours::aligned:
      return aligned_shape(problem, device).chunks;
    case Neighbours::shifted:
      return strip_shape(problem, device).block.chunks;
    default:
      return batched_shape(problem, device).chunks;
  }
}

template <typename T, typename Op>
void launch_aligned(const Problem& problem, const Device& device) {
  const ColumnsShape shape = aligned_shape(problem, device);
  launch(
      "columns", aligned_columns_kernel<T, Op>,
      {shape.blocks(), {THREADS}, shared_bytes<T, Op>(AlignedRows<T>::SHARED_BYTES), problem.launch_with_pdl},
      device, Columns{problem, shape});
}

template <typename T, typename Op>
void launch_shifted(const Problem& problem, const Device& device) {
  const StripShape shape = strip_shape(problem, device);
  launch(
      "columns", shifted_columns_kernel<T, Op>,
      {shape.block.blocks(), {THREADS}, shared_bytes<T, Op>(shape.shared_bytes()), problem.launch_with_pdl},
      device, Strips{problem, shape});
}

template <typename T, typename Op, int W>
void launch_lone(const Problem& problem, const Device& device) {
  launch("columns", lone_columns_kernel<T, Op, W>,
         {ceil_div(problem.output_count, THREADS * W), {THREADS}, 0, problem.launch_with_pdl}, device,
         LoneColumns{problem, results_are_vectors(problem, W)});
}

template <typename T, typename Op>
void launch_pairs(const Problem& problem, const Device& device) {
  launch("columns", lone_pairs_kernel<T, Op>,
         {ceil_div(problem.output_count, 2 * LONE_PAIRS * WARPS), {THREADS}, 0, problem.launch_with_pdl},
         device, LoneColumns{problem, false});
}

template <typename T, typename Op, int W>
void launch_short(const Problem& problem, const Device& device) {
  launch("columns",
         problem.count <= SHORT_ROWS ? short_columns_kernel<T, Op, W, true>
                                     : short_columns_kernel<T, Op, W, false>,
         {ceil_div(problem.output_count, THREADS * W), {THREADS}, 0, problem.launch_with_pdl}, device,
         ShortColumns{problem, results_are_vectors(problem, W)});
}

template <typename T, typename Op>
void run_lone(const Problem& problem, const Device& device) {
  if constexpr (sizeof(T) == 2) {
    if (columns_are_vectors(problem, VECTOR_WIDTH<T>)) {
      return launch_lone<T, Op, COLUMN_WIDTH<T>>(problem, device);
    }
    if constexpr (!std::is_integral_v<T>) {
      if (columns_are_pairs(problem, device)) return launch_pairs<T, Op>(problem, device);
    }
  }
  return launch_lone<T, Op, 1>(problem, device);
}

template <typename T, typename Op>
void launch_narrow(const Problem& problem, const Device& device) {
  const NarrowColumns narrow = narrow_columns(problem, device);
  const int leaves = narrow.segments * LANES * narrow.columns;
  launch("columns", narrow_columns_kernel<T, Op>,
         {narrow.blocks(), {THREADS}, narrow_place<T>(leaves) * sizeof(Leaf<T>), problem.launch_with_pdl},
         device, narrow);
}

template <typename T, typename Op>
void launch_batched(const Problem& problem, const Device& device) {
  const ColumnsShape shape = batched_shape(problem, device);
  launch("columns", columns_kernel<T, Op>, {shape.blocks(), {THREADS}, 0, problem.launch_with_pdl}, device,
         Columns{problem, shape});
}

}  // namespace

template <typename Op>
void launch_columns(const Problem& problem, const Device& device) {
  with_element_type(problem.in_dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    switch (neighbours_of(problem, device)) {
      case Neighbours::few_rows:
        return columns_are_vectors(problem, VECTOR_WIDTH<T>)
                   ? launch_short<T, Op, VECTOR_WIDTH<T>>(problem, device)
                   : launch_short<T, Op, 1>(problem, device);
      case Neighbours::lone:
        return run_lone<T, Op>(problem, device);
      case Neighbours::narrow:
        return launch_narrow<T, Op>(problem, device);
      case Neighbours::aligned:
        return launch_aligned<T, Op>(problem, device);
      case Neighbours::shifted:
        return launch_shifted<T, Op>(problem, device);
      default:
        return launch_batched<T, Op>(problem, device);
    }
  });
}

}  // namespace SMEM_BUILD
}  // namespace smem::reduce
