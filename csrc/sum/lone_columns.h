// Columns that a thread takes alone: of up to four rounds of a segment, and so many that threads
// fill the multiprocessors. It goes down by neighbouring leaves whose loads are under way together.
// Nobody waits for anybody, and rows may begin anywhere: loads are of single elements, or of
// vectors of 8 bytes where elements of 2 bytes are aligned.
#pragma once

#include <bit>

#include "device/programmatic.h"
#include "sum/dispatch.h"
#include "sum/leaves.h"
#include "sum/result.h"

namespace smem::sum {
inline namespace SMEM_BUILD {

constexpr int NARROW_LEAVES = 1 << NARROW_LEVELS;
/// The longest columns that threads take alone, and the fewest threads a multiprocessor; twice as
/// many where the other way is a ring of whole vectors.
constexpr int LONE_COLUMN = 4 * LANES, LONE_THREADS = 240;
/// Single elements ask little of memory at a time: a ring of vectors, or of 2 bytes and less, takes
/// longer to start, but is done earlier where there are more elements than these.
constexpr int64_t LONE_SMALL = int64_t{1} << 26;

struct LoneColumns {
  Problem problem;
  bool vectors_out;  ///< results are elements as x's, in whole vectors
};

/// W columns a thread; of more than one, an element a leaf.
template <typename T, typename Op, int W>
__global__ void __launch_bounds__(THREADS, W > 1 ? 3 : 4)
    lone_columns_kernel(const __grid_constant__ LoneColumns columns) {
  constexpr int ROWS = W > 1 || sizeof(T) == 8 ? 8 : 16, PARTS = NARROW_LEAVES / ROWS;
  constexpr int PART_LEVELS = std::bit_width(unsigned{PARTS}) - 1;
  constexpr int WIDE_LEVELS = std::bit_width(unsigned{LANES / NARROW_LEAVES}) - 1;
  const Problem& problem = columns.problem;
  const int64_t output = (int64_t{blockIdx.x} * THREADS + threadIdx.x) * W;
  const int count = static_cast<int>(problem.count);
  const int64_t step = problem.reduced.stride[IN][0];
  const unsigned leaf_count = count < LANES ? count : LANES;
  const unsigned groups = std::bit_ceil((leaf_count - 1) / NARROW_LEAVES + 1);

  let_next_begin();
  wait_for_previous();
  if (output >= problem.output_count) return;
  const auto at = offsets_at(problem.outputs, output);
  const T* const column = static_cast<const T*>(problem.in) + at.of[IN];
  Counter<Op, Node<Op, T>, WIDE_LEVELS> counters[W];
  Node<Op, T> node[W] = {};
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
          loaded[r] = vector_of_identity<T, Op, W>();
          if (row + r < count) loaded[r] = load_words<W>(from);
          from += step;
        }
#pragma unroll
        for (int c = 0; c < W; ++c) {
          Vector<T, ROWS> down;
#pragma unroll
          for (int r = 0; r < ROWS; ++r) down.lane[r] = loaded[r].elements().lane[c];
          leaves[c].add(down);
        }
        from += (LANES - ROWS) * step;
      }
#pragma unroll
      for (int c = 0; c < W; ++c) part[c] = part_counters[c].push(p, leaves[c].node());
    }
#pragma unroll
    for (int c = 0; c < W; ++c) node[c] = counters[c].push(g, Node<Op, T>(part[c]));
  }
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

}  // namespace SMEM_BUILD
}  // namespace smem::sum
