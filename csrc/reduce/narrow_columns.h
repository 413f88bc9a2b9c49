// Few columns side by side with no gap between rows (1M x 8): memory is read as one run. A round of
// a tile, 256 rows, is whole vectors however many columns there are, and the elements of a
// vector belong to the same thread_partials and columns in every round. So a thread adds vectors a
// round stride, and the thread_partials then lie in shared memory as the elements of a round do. A
// warp takes a column's 256 thread_partials, eight a lane.
#pragma once

#include "device/pdl.h"
#include "reduce/element_type.h"
#include "reduce/layout.h"
#include "reduce/store.h"
#include "reduce/thread_reduce.h"

namespace smem::reduce {
inline namespace SMEM_BUILD {

constexpr int NARROW_MAX_ROW_BYTES = 128, NARROW_MAX_COLUMNS = 32;  ///< of a row, at most
/// Of a column: shorter ones are too little work for tiles to share.
constexpr int64_t NARROW_MIN_TILES = 8;
/// Blocks an SM: 528 on an H200, so that the 489 tiles of a million rows run at once.
constexpr int NARROW_MIN_BLOCKS_PER_SM = 4, NARROW_MAX_TILES_PER_BLOCK = 8;

struct NarrowColumnsParams {
  Problem problem;
  int columns, tiles;  ///< of a block; a power of two
  int vectors;         ///< of a round

  int64_t splits() const {
    return ceil_div(problem.count, int64_t{tiles} * PARTIALS_PER_TILE * ELEMENTS_PER_PARTIAL);
  }
  int64_t blocks() const { return problem.output_count / columns * splits(); }
};

/// Where a thread_partial lies in shared memory: after each 128 bytes one is left out, so that a
/// warp finds 32 thread_partials of a column in different banks, if columns are a power of two; a
/// third of the accesses meet otherwise.
template <typename T>
constexpr int narrow_smem_offset(int thread_partial) {
  return thread_partial + thread_partial / (128 / static_cast<int>(sizeof(ThreadPartial<T>)));
}

template <typename T, typename Op>
__global__ void __launch_bounds__(THREADS, NARROW_MIN_BLOCKS_PER_SM)
    narrow_columns_kernel(const __grid_constant__ NarrowColumnsParams narrow) {
  constexpr int W = VECTOR_WIDTH<T>, PARTIALS_PER_LANE = PARTIALS_PER_TILE / 32;
  using Acc = Partial<Op, T>;
  __shared__ Tile<Acc, NARROW_MAX_TILES_PER_BLOCK, NARROW_MAX_COLUMNS> partials;
  auto* const thread_partials = dynamic_shared<ThreadPartial<T>>();
  const Problem& problem = narrow.problem;
  const int columns = narrow.columns, vectors = narrow.vectors, round = PARTIALS_PER_TILE * columns;
  const int64_t split = blockIdx.x % problem.splits;
  const int64_t first_output = blockIdx.x / problem.splits * columns;
  const int64_t first_row = split * narrow.tiles * PARTIALS_PER_TILE * ELEMENTS_PER_PARTIAL;
  const T* const begin = static_cast<const T*>(problem.in) +
                         offsets_at(problem.outputs, first_output).of[IN] + first_row * columns;
  const int64_t elements = (problem.count - first_row) * columns;
  const OrderTransform<T, Op> transform(problem);

  launch_dependent_grids();
  wait_on_dependent_grids();
#pragma unroll 1
  for (int vector_index = threadIdx.x; vector_index < narrow.tiles * vectors;
       vector_index += THREADS) {
    // A vector of a tile's first round; those of the other rounds stand below it.
    const int tile = vector_index / vectors;
    const int64_t first = int64_t{tile} * (ELEMENTS_PER_PARTIAL - 1) * round + vector_index * W;
    const T* const in = begin + first;
    const int64_t left = elements - first;
    Loaded<T, W> loaded[ELEMENTS_PER_PARTIAL];
#pragma unroll
    for (int r = 0; r < ELEMENTS_PER_PARTIAL; ++r) {
      loaded[r] = transform.template identity<W>();
      if (r * round + W <= left) loaded[r] = load_words<W>(in + r * round);
    }
    ThreadPartial<T> accum[W];
#pragma unroll
    for (int v = 0; v < W; ++v) accum[v] = Op::template identity<ThreadPartial<T>>();
#pragma unroll
    for (int r = 0; r < ELEMENTS_PER_PARTIAL; ++r) {
      const Vector<T, W> vector = loaded[r].elements();
#pragma unroll
      for (int v = 0; v < W; ++v) accum[v] = Op::combine(accum[v], transform.apply(vector, v));
    }
    // The last elements of all may be no whole vector.
    const int tail = static_cast<int>(left % W);
    if (tail > 0 && left < ELEMENTS_PER_PARTIAL * round &&
        (static_cast<int>(left) - tail) % round == 0) {
#pragma unroll
      for (int v = 0; v < W; ++v) {
        if (v < tail)
          accum[v] = Op::combine(accum[v], transform.apply(T(load(in + left - tail + v))));
      }
    }
#pragma unroll
    for (int v = 0; v < W; ++v)
      store(thread_partials + narrow_smem_offset<T>(vector_index * W + v), accum[v]);
  }
  __syncthreads();

  const int lane = threadIdx.x % 32;
#pragma unroll 1
  for (int warp_tile = threadIdx.x / 32; warp_tile < narrow.tiles * columns; warp_tile += WARPS) {
    const int tile = warp_tile / columns, column = warp_tile % columns;
    ThreadPartial<T> lane_partials[PARTIALS_PER_LANE];
#pragma unroll
    for (int j = 0; j < PARTIALS_PER_LANE; ++j) {
      const int thread_partial = j * 32 + lane;
      lane_partials[j] =
          load(thread_partials +
               narrow_smem_offset<T>(tile * round + thread_partial * columns + column));
    }
    // Lane l has the partial above 32 thread_partials of number l % 8.
    const auto fp32_partial =
        warp_reduce<Op>(warp_reduce_scatter<Op>(lane_partials), PARTIALS_PER_LANE);
    const Acc partial = warp_reduce<Op>(static_cast<Acc>(fp32_partial), 1, PARTIALS_PER_LANE);
    if (lane == 0) partials(tile, column) = partial;
  }
  __syncthreads();
  const int column = threadIdx.x;
  if (column >= columns) return;
  for (int stride = 1; stride < narrow.tiles; stride *= 2) {
    for (int s = 0; s < narrow.tiles; s += 2 * stride) {
      partials(s, column) =
          Op::combine(Acc(partials(s, column)), Acc(partials(s + stride, column)));
    }
  }
  store_result(problem, first_output + column, split, transform.invert(Acc(partials(0, column))));
}

/// Whether the outputs are a few long columns of rows that follow each other without gaps.
inline bool columns_are_narrow(const Problem& problem) {
  const int inner = problem.outputs.rank - 1;
  if (inner < 0 || problem.reduced.rank != 1 ||
      problem.elements_per_partial != ELEMENTS_PER_PARTIAL)
    return false;
  const int64_t columns = problem.outputs.size[inner];
  const auto bytes = static_cast<int64_t>(size_of(problem.in_dtype));
  const int width = static_cast<int>(16 / bytes);
  return problem.outputs.stride[IN][inner] == 1 && problem.reduced.stride[IN][0] == columns &&
         columns * bytes <= NARROW_MAX_ROW_BYTES && columns <= NARROW_MAX_COLUMNS &&
         problem.count >= NARROW_MIN_TILES * PARTIALS_PER_TILE * ELEMENTS_PER_PARTIAL &&
         is_aligned(problem, width) && steps_by(problem.outputs, inner, width);
}

inline NarrowColumnsParams narrow_params(const Problem& problem, const Device& device) {
  const auto bytes = static_cast<int64_t>(size_of(problem.in_dtype));
  const int columns = static_cast<int>(problem.outputs.size[problem.outputs.rank - 1]);
  const auto vectors = static_cast<int>(PARTIALS_PER_TILE * columns * bytes / 16);
  const int64_t tiles = ceil_div(problem.count, int64_t{PARTIALS_PER_TILE} * ELEMENTS_PER_PARTIAL);
  const int64_t all = tiles * (problem.output_count / columns);
  const int64_t enough = 4 * int64_t{NARROW_MIN_BLOCKS_PER_SM} * device.sm_count;
  int tiles_per_block = 1;
  for (; tiles_per_block < NARROW_MAX_TILES_PER_BLOCK && tiles_per_block < tiles &&
         (tiles_per_block * vectors < THREADS * 3 / 4 || all / tiles_per_block > enough) &&
         2 * tiles_per_block * PARTIALS_PER_TILE * columns * 8 <= int{DEFAULT_SHARED_BYTES};) {
    tiles_per_block *= 2;
  }
  return {problem, columns, tiles_per_block, vectors};
}

}  // namespace SMEM_BUILD
}  // namespace smem::reduce
