// Rows that are a few vectors a lane, wherever they begin: a warp takes one. The vectors that it
// begins and ends in are loaded whole, with what belongs to its neighbours, so that all are under
// way at once; identities then take the place of that.
#pragma once

#include <algorithm>
#include <bit>

#include "device/pdl.h"
#include "reduce/element_type.h"
#include "reduce/store.h"
#include "reduce/tile_reduce.h"

namespace smem::reduce {
inline namespace SMEM_BUILD {

/// Vectors a lane of the shortest such rows, and of the longest.
template <typename T>
constexpr int LEAST_BRIEF = sizeof(T) == 4 ? 3 : sizeof(T);
template <typename T>
constexpr int MOST_BRIEF = std::is_same_v<T, float> || sizeof(T) == 2 ? 6
                           : sizeof(T) == 1                           ? 4
                                                                      : 0;
/// Of aligned rows; of longer ones, or fewer an SM, a segment is as fast.
constexpr int MOST_ALIGNED = 3, MANY_ROWS = 80;

constexpr int BRIEF_ROW_BLOCKS = 4;  ///< that an SM runs at once, at least

struct BriefRows {
  Problem problem;  ///< of one loop over rows that are at least a vector apart
};

/// The bits of a word from number `first` on, which may lie outside of it.
__device__ __forceinline__ uint32_t ones_from(int first) {
  return static_cast<uint32_t>(uint64_t{0xffffffff} << std::clamp(first, 0, 32));
}

/// A vector's elements from `begin` to before `end`; those of `others` in the place of the others.
template <typename T, int W>
__device__ __forceinline__ Loaded<T, W> part_of(Loaded<T, W> vector, int begin, int end,
                                                const Loaded<T, W>& others) {
  constexpr int BITS = 8 * sizeof(T);
#pragma unroll
  for (int w = 0; w < W * BITS / 32; ++w) {
    const auto part = ones_from(begin * BITS - 32 * w) & ~ones_from(end * BITS - 32 * w);
    vector.words.lane[w] = (vector.words.lane[w] & part) | (others.words.lane[w] & ~part);
  }
  return vector;
}

/// The same of a vector in memory, of which no more is read; zeros in the place of the others.
template <typename T>
__device__ __forceinline__ Loaded<T, VECTOR_WIDTH<T>> load_part(const T* from, int begin, int end,
                                                                Site site = Site::here()) {
  using Element = Bits<sizeof(T)>;
  constexpr int BITS = 8 * sizeof(T);
  uint64_t low = 0, high = 0;
#pragma unroll 1
  for (int e = VECTOR_WIDTH<T> - 1; e >= 0; --e) {
    Element element = 0;
    if (begin <= e && e < end) element = std::bit_cast<Element>(load(from + e, site));
    high = high << BITS | low >> (64 - BITS);
    low = low << BITS | element;
  }
  return std::bit_cast<Loaded<T, VECTOR_WIDTH<T>>>(Vector<uint64_t, 2>{low, high});
}

/// VECTORS: of a lane, at most.
template <typename T, typename Op, int VECTORS>
__global__ void __launch_bounds__(THREADS, BRIEF_ROW_BLOCKS)
    brief_rows_kernel(const __grid_constant__ BriefRows rows) {
  constexpr int W = VECTOR_WIDTH<T>, STEP = 32 * W;
  constexpr int RUNS = std::max(1, LANES / STEP);  ///< of neighbouring leaves a lane
  constexpr int LEVEL = std::bit_width(unsigned{W}) - 1;
  const Problem& problem = rows.problem;
  const int lane = threadIdx.x % 32;
  const int64_t row = int64_t{blockIdx.x} * WARPS + threadIdx.x / 32;
  const T* const first = static_cast<const T*>(problem.in) + row * problem.outputs.stride[IN][0];
  // Where the row begins and ends, counted from the lane's first vector.
  const int begin = misalignment(first) - lane * W;
  const int end = begin + static_cast<int>(problem.count);
  const T* const from = first - begin;
  const Turn<T, Op> turn(problem);

  launch_dependent_grids();
  wait_on_dependent_grids();
  if (row >= problem.output_count) return;
  Loaded<T, W> loaded[VECTORS];
  if (row > 0 && row + 1 < problem.output_count) {
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
      loaded[v] = {};
      if (v * STEP < end) loaded[v] = load_words<W>(from + v * STEP);
    }
  } else {
    // Before the first row and behind the last there may be nothing that can be read.
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
      const int slot = v * STEP;
      loaded[v] = {};
      if (begin <= slot && slot + W <= end) {
        loaded[v] = load_words<W>(from + slot);
      } else if (slot < end) {
        loaded[v] = load_part(from + slot, begin - slot, end - slot);
      }
    }
  }

  Leaves<T, Op, W> leaves[RUNS];
#pragma unroll
  for (int v = 0; v < VECTORS; ++v) {
    const auto part =
        part_of(loaded[v], v == 0 ? begin : 0, end - v * STEP, turn.template identity<W>());
    if (v < RUNS) {
      leaves[v].begin_with(part.elements(), turn);
    } else {
      leaves[v % RUNS].add(part.elements(), turn);
    }
  }
  Leaf<T> nodes[RUNS];
  nodes_from(leaves, begin, nodes);
  Node<Op, T> node;
  if constexpr (std::is_integral_v<T>) {
    node = node_above_lanes<Op>(nodes[0]);  // of so few elements, in 32 bits
  } else {
    node = node_above_row<Op, T, LEVEL>(scatter_over_lanes<Op>(nodes), 32, RUNS);
    node = node_above_lanes<Op>(node, 1, RUNS);
  }
  if (lane == 0) {
    const auto identity = Op::template identity<Node<Op, T>>();
    put_result_at(problem, row * problem.outputs.stride[OUT][0],
                  turn.back(Op::combine(identity, node)));
  }
}

}  // namespace SMEM_BUILD
}  // namespace smem::reduce
