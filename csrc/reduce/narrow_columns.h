// Few columns side by side with no gap between rows (1M x 8): memory is read as one run. A round of
// a segment, 256 rows, is whole vectors however many columns there are, and the elements of a
// vector belong to the same leaves and columns in every round. So a thread adds vectors a round
// apart, and the leaves then lie in shared memory as the elements of a round do. A warp takes a
// column's 256 leaves, eight a lane.
#pragma once

#include "device/pdl.h"
#include "reduce/element_type.h"
#include "reduce/layout.h"
#include "reduce/thread_reduce.h"
#include "reduce/store.h"

namespace smem::reduce {
inline namespace SMEM_BUILD {

constexpr int NARROW_BYTES = 128, NARROW_COLUMNS = 32;  ///< of a row, at most
/// Of a column: shorter ones are too little work for segments to share.
constexpr int64_t LEAST_NARROW_SEGMENTS = 8;
/// Blocks an SM: 528 on an H200, so that the 489 segments of a million rows run at once.
constexpr int NARROW_BLOCKS_AT_ONCE = 4, MAX_NARROW_SEGMENTS = 8;

struct NarrowColumns {
  Problem problem;
  int columns, segments;  ///< of a block; a power of two
  int vectors;            ///< of a round

  int64_t chunks() const { return ceil_div(problem.count, int64_t{segments} * LANES * CHAIN); }
  int64_t blocks() const { return problem.output_count / columns * chunks(); }
};

/// Where a leaf lies in shared memory: after each 128 bytes one is left out, so that a warp finds
/// 32 leaves of a column in different banks, if columns are a power of two; a third of the accesses
/// meet otherwise.
template <typename T>
constexpr int narrow_place(int leaf) {
  return leaf + leaf / (128 / static_cast<int>(sizeof(Leaf<T>)));
}

template <typename T, typename Op>
__global__ void __launch_bounds__(THREADS, NARROW_BLOCKS_AT_ONCE)
    narrow_columns_kernel(const __grid_constant__ NarrowColumns narrow) {
  constexpr int W = VECTOR_WIDTH<T>, LEAVES_A_LANE = LANES / 32;
  using Acc = Node<Op, T>;
  __shared__ Tile<Acc, MAX_NARROW_SEGMENTS, NARROW_COLUMNS> nodes;
  auto* const leaves = dynamic_shared<Leaf<T>>();
  const Problem& problem = narrow.problem;
  const int columns = narrow.columns, vectors = narrow.vectors, round = LANES * columns;
  const int64_t chunk = blockIdx.x % problem.chunks;
  const int64_t first_output = blockIdx.x / problem.chunks * columns;
  const int64_t first_row = chunk * narrow.segments * LANES * CHAIN;
  const T* const begin = static_cast<const T*>(problem.in) +
                         offsets_at(problem.outputs, first_output).of[IN] + first_row * columns;
  const int64_t elements = (problem.count - first_row) * columns;
  const Turn<T, Op> turn(problem);

  launch_dependent_grids();
  wait_on_dependent_grids();
#pragma unroll 1
  for (int unit = threadIdx.x; unit < narrow.segments * vectors; unit += THREADS) {
    // A vector of a segment's first round; those of the other rounds stand below it.
    const int segment = unit / vectors;
    const int64_t first = int64_t{segment} * (CHAIN - 1) * round + unit * W;
    const T* const in = begin + first;
    const int64_t left = elements - first;
    Loaded<T, W> loaded[CHAIN];
#pragma unroll
    for (int r = 0; r < CHAIN; ++r) {
      loaded[r] = turn.template identity<W>();
      if (r * round + W <= left) loaded[r] = load_words<W>(in + r * round);
    }
    Leaf<T> sums[W];
#pragma unroll
    for (int v = 0; v < W; ++v) sums[v] = Op::template identity<Leaf<T>>();
#pragma unroll
    for (int r = 0; r < CHAIN; ++r) {
      const Vector<T, W> vector = loaded[r].elements();
#pragma unroll
      for (int v = 0; v < W; ++v) sums[v] = Op::combine(sums[v], turn.leaf(vector, v));
    }
    // The last elements of all may be no whole vector.
    const int rest = static_cast<int>(left % W);
    if (rest > 0 && left < CHAIN * round && (static_cast<int>(left) - rest) % round == 0) {
#pragma unroll
      for (int v = 0; v < W; ++v) {
        if (v < rest) sums[v] = Op::combine(sums[v], turn.leaf(T(load(in + left - rest + v))));
      }
    }
#pragma unroll
    for (int v = 0; v < W; ++v) store(leaves + narrow_place<T>(unit * W + v), sums[v]);
  }
  __syncthreads();

  const int lane = threadIdx.x % 32;
#pragma unroll 1
  for (int task = threadIdx.x / 32; task < narrow.segments * columns; task += WARPS) {
    const int segment = task / columns, column = task % columns;
    Leaf<T> mine[LEAVES_A_LANE];
#pragma unroll
    for (int j = 0; j < LEAVES_A_LANE; ++j) {
      const int leaf = j * 32 + lane;
      mine[j] = load(leaves + narrow_place<T>(segment * round + leaf * columns + column));
    }
    // Lane l has the node above 32 leaves of number l % 8.
    const auto narrow_node = node_above_lanes<Op>(scatter_over_lanes<Op>(mine), LEAVES_A_LANE);
    const Acc node = node_above_lanes<Op>(static_cast<Acc>(narrow_node), 1, LEAVES_A_LANE);
    if (lane == 0) nodes(segment, column) = node;
  }
  __syncthreads();
  const int column = threadIdx.x;
  if (column >= columns) return;
  for (int apart = 1; apart < narrow.segments; apart *= 2) {
    for (int s = 0; s < narrow.segments; s += 2 * apart) {
      nodes(s, column) = Op::combine(Acc(nodes(s, column)), Acc(nodes(s + apart, column)));
    }
  }
  put_result(problem, first_output + column, chunk, turn.back(Acc(nodes(0, column))));
}

/// Whether the outputs are a few long columns of rows that follow each other without gaps.
inline bool columns_are_narrow(const Problem& problem) {
  const int inner = problem.outputs.rank - 1;
  if (inner < 0 || problem.reduced.rank != 1 || problem.chain != CHAIN) return false;
  const int64_t columns = problem.outputs.size[inner];
  const auto bytes = static_cast<int64_t>(size_of(problem.in_dtype));
  const int width = static_cast<int>(16 / bytes);
  return problem.outputs.stride[IN][inner] == 1 && problem.reduced.stride[IN][0] == columns &&
         columns * bytes <= NARROW_BYTES && columns <= NARROW_COLUMNS &&
         problem.count >= LEAST_NARROW_SEGMENTS * LANES * CHAIN && is_aligned(problem, width) &&
         steps_by(problem.outputs, inner, width);
}

inline NarrowColumns narrow_columns(const Problem& problem, const Device& device) {
  const auto bytes = static_cast<int64_t>(size_of(problem.in_dtype));
  const int columns = static_cast<int>(problem.outputs.size[problem.outputs.rank - 1]);
  const auto vectors = static_cast<int>(LANES * columns * bytes / 16);
  const int64_t segments = ceil_div(problem.count, int64_t{LANES} * CHAIN);
  const int64_t all = segments * (problem.output_count / columns);
  const int64_t enough = 4 * int64_t{NARROW_BLOCKS_AT_ONCE} * device.sm_count;
  int mine = 1;
  for (; mine < MAX_NARROW_SEGMENTS && mine < segments &&
         (mine * vectors < THREADS * 3 / 4 || all / mine > enough) &&
         2 * mine * LANES * columns * 8 <= int{DEFAULT_SHARED_BYTES};) {
    mine *= 2;
  }
  return {problem, columns, mine, vectors};
}

}  // namespace SMEM_BUILD
}  // namespace smem::reduce
