// Columns that a thread takes alone: of up to four rounds of a segment, and so many that threads
// fill the SMs. It goes down by neighbouring leaves whose loads are under way together.
// Nobody waits for anybody, and rows may begin anywhere: loads are of single elements, of vectors
// of 8 bytes where elements of 2 bytes are aligned, or of the words that they lie in where they are
// not.
#pragma once

#include <bit>

#include "device/pdl.h"
#include "reduce/element_type.h"
#include "reduce/thread_reduce.h"
#include "reduce/store.h"

namespace smem::reduce {
inline namespace SMEM_BUILD {

constexpr int NARROW_LEAVES = 1 << NARROW_LEVELS;
/// The longest columns that threads take alone, and the fewest threads an SM; twice as
/// many where the other way is a ring of whole vectors.
constexpr int LONE_COLUMN = 4 * LANES, LONE_THREADS = 240;
/// Single elements ask little of memory at a time: a ring of vectors, or of 2 bytes and less, takes
/// longer to start, but is done earlier where there are more elements than these.
constexpr int64_t LONE_SMALL = int64_t{1} << 26;

/// Of 32 leaves, a power of two.
__device__ __forceinline__ unsigned groups_of(int count) {
  const unsigned leaves = count < LANES ? count : LANES;
  return std::bit_ceil((leaves - 1) / NARROW_LEAVES + 1);
}

struct LoneColumns {
  Problem problem;
  bool vectors_out;  ///< results are elements as x's, in whole vectors
};

/// What W neighbouring columns come to; of more than one, with an element a leaf.
template <typename T, typename Op, int W>
__device__ __forceinline__ void reduce_alone(const Problem& problem, const Turn<T, Op>& turn,
                                             const T* column, Node<Op, T> (&node)[W]) {
  constexpr int ROWS = W > 1 || sizeof(T) == 8 ? 8 : 16, PARTS = NARROW_LEAVES / ROWS;
  constexpr int PART_LEVELS = std::bit_width(unsigned{PARTS}) - 1;
  constexpr int WIDE_LEVELS = std::bit_width(unsigned{LANES / NARROW_LEAVES}) - 1;
  const int count = static_cast<int>(problem.count);
  const int64_t step = problem.reduced.stride[IN][0];
  const unsigned groups = groups_of(count);
  Counter<Op, Node<Op, T>, WIDE_LEVELS> counters[W];
#pragma unroll 1
  for (unsigned g = 0; g < groups; ++g) {
    Counter<Op, Leaf<T>, PART_LEVELS> part_counters[W];
    Leaf<T> part[W] = {};
#pragma unroll
    for (int p = 0; p < PARTS; ++p) {
      Leaves<T, Op, ROWS> leaves[W];
      const int first = static_cast<int>(g) * NARROW_LEAVES + p * ROWS;
      const T* from = column + first * step;
      for (int row = first; row == first || (W == 1 && row < count); row += LANES) {
        Loaded<T, W> loaded[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
          loaded[r] = turn.template identity<W>();
          if (row + r < count) loaded[r] = load_words<W>(from);
          from += step;
        }
#pragma unroll
        for (int c = 0; c < W; ++c) {
          Vector<T, ROWS> down;
#pragma unroll
          for (int r = 0; r < ROWS; ++r) down.lane[r] = loaded[r].elements().lane[c];
          leaves[c].add(down, turn);
        }
        from += (LANES - ROWS) * step;
      }
#pragma unroll
      for (int c = 0; c < W; ++c) part[c] = part_counters[c].push(p, leaves[c].node());
    }
#pragma unroll
    for (int c = 0; c < W; ++c) node[c] = counters[c].push(g, Node<Op, T>(part[c]));
  }
}

template <typename T, typename Op, int W>
__global__ void __launch_bounds__(THREADS, W > 1 ? 3 : 4)
    lone_columns_kernel(const __grid_constant__ LoneColumns columns) {
  const Problem& problem = columns.problem;
  const int64_t output = (int64_t{blockIdx.x} * THREADS + threadIdx.x) * W;

  launch_dependent_grids();
  wait_on_dependent_grids();
  if (output >= problem.output_count) return;
  const auto at = offsets_at(problem.outputs, output);
  Node<Op, T> node[W] = {};
  const Turn<T, Op> turn(problem);
  reduce_alone<T, Op, W>(problem, turn, static_cast<const T*>(problem.in) + at.of[IN], node);
#pragma unroll
  for (int c = 0; c < W; ++c) node[c] = turn.back(node[c]);
  if constexpr (W > 1 && !std::is_integral_v<T>) {
    if (columns.vectors_out) {
      Vector<T, W> results;
#pragma unroll
      for (int c = 0; c < W; ++c) {
        results.lane[c] = from_accumulator<T>(static_cast<Accumulator<T>>(node[c]));
      }
      store_global_vector<W>(static_cast<T*>(problem.out) + at.of[OUT], results);
      return;
    }
  }
#pragma unroll
  for (int c = 0; c < W; ++c) put_result(problem, output + c, 0, node[c]);
}

/// Pairs of columns that a warp takes: its last lane brings a word for the lane before. And the
/// fewest columns an SM: four blocks' of them.
constexpr int LONE_PAIRS = 31, LONE_PAIRS_COLUMNS = 2048;

/// The columns of a warp, two a lane, of rows of 2-byte elements that begin anywhere, an element a
/// leaf: aligned words, shifted by an element where the row begins inside of one.
template <typename T, typename Op>
__device__ __forceinline__ void reduce_pairs(const Problem& problem, const Turn<T, Op>& turn,
                                             const T* columns, Node<Op, T> (&node)[2],
                                             Site site = Site::here()) {
  constexpr int ROWS = 16, PARTS = NARROW_LEAVES / ROWS;
  constexpr int WIDE_LEVELS = std::bit_width(unsigned{LANES / NARROW_LEAVES}) - 1;
  const int count = static_cast<int>(problem.count), lane = threadIdx.x % 32;
  const int64_t step = problem.reduced.stride[IN][0];
  const unsigned groups = groups_of(count);
  auto from = reinterpret_cast<uintptr_t>(columns + 2 * lane);
  Counter<Op, Node<Op, T>, WIDE_LEVELS> counters[2];
#pragma unroll 1
  for (unsigned g = 0; g < groups; ++g) {
    Leaf<T> parts[2][PARTS];
#pragma unroll
    for (int p = 0; p < PARTS; ++p) {
      const int first = static_cast<int>(g) * NARROW_LEAVES + p * ROWS;
      Loaded<T, 2> loaded[ROWS];
      unsigned past[ROWS];  // elements from the word's begin to the lane's columns
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        past[r] = static_cast<unsigned>(from) / 2 % 2;
        loaded[r] = turn.template identity<2>();
        if (first + r < count) {
          loaded[r] = load_words<2>(reinterpret_cast<const T*>(from / 4 * 4), site);
        }
        from += step * sizeof(T);
      }
      Leaf<T> leaves[2][ROWS];
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        const uint32_t word = loaded[r].words.lane[0];
        const uint32_t next = __shfl_down_sync(ALL_LANES, word, 1);
        const auto both = uint64_t{next} << 32 | word;
        const auto pair = std::bit_cast<Vector<T, 2>>(static_cast<uint32_t>(both >> 16 * past[r]));
#pragma unroll
        for (int c = 0; c < 2; ++c) leaves[c][r] = turn.leaf(pair, c);
      }
#pragma unroll
      for (int c = 0; c < 2; ++c) parts[c][p] = node_above<Op>(leaves[c]);
    }
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      node[c] = counters[c].push(g, Node<Op, T>(node_above<Op>(parts[c])));
    }
  }
}

template <typename T, typename Op>
__global__ void __launch_bounds__(THREADS, 3)
    lone_pairs_kernel(const __grid_constant__ LoneColumns columns) {
  constexpr int WARP_COLUMNS = 2 * LONE_PAIRS, BLOCK_COLUMNS = WARPS * WARP_COLUMNS;
  const Problem& problem = columns.problem;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t first = int64_t{blockIdx.x} * BLOCK_COLUMNS;
  const T* const column = static_cast<const T*>(problem.in) + first;
  const Turn<T, Op> turn(problem);
  const auto put = [&](int c, Node<Op, T> node) {
    put_result_at(problem, (first + c) * problem.outputs.stride[OUT][0],
                  turn.back(Op::combine(Op::template identity<Node<Op, T>>(), node)));
  };

  launch_dependent_grids();
  wait_on_dependent_grids();
  // In the first block and the last, words may lie half outside of x. The test is of the block: of
  // a warp, nvcc would let no load pass the shuffles.
  if (blockIdx.x > 0 && first + BLOCK_COLUMNS + 2 <= problem.output_count) {
    Node<Op, T> node[2] = {};
    reduce_pairs<T, Op>(problem, turn, column + warp * WARP_COLUMNS, node);
    if (lane == LONE_PAIRS) return;
#pragma unroll
    for (int c = 0; c < 2; ++c) put(warp * WARP_COLUMNS + 2 * lane + c, node[c]);
    return;
  }
#pragma unroll 1
  for (int c = threadIdx.x; c < BLOCK_COLUMNS && first + c < problem.output_count; c += THREADS) {
    Node<Op, T> node[1] = {};
    reduce_alone<T, Op, 1>(problem, turn, column + c, node);
    put(c, node[0]);
  }
}

}  // namespace SMEM_BUILD
}  // namespace smem::reduce
