// Few columns and many rows with no gap between the rows (1M x 8), read as one contiguous array.
//
// A round of a tile is 256 rows: 256 * columns elements, which are whole vectors for any number of
// columns. A vector at the same position of each of the 8 rounds holds elements of the same thread
// partials and columns.
//
//   1. A thread adds the vectors at one position of the 8 rounds, 256 * columns elements apart.
//   2. It stores the thread partials to shared memory, where the elements are in a round.
//   3. A warp combines the 256 thread partials of one tile and column, 8 per lane.
//   4. A thread per column combines the tiles of the block.
//
// Order of additions: reduce/reduction_tree.h. The thresholds and the tiles per block may be tuned.
#pragma once

#include "device/pdl.h"
#include "reduce/element_type.h"
#include "reduce/layout.h"
#include "reduce/store.h"
#include "reduce/thread_reduce.h"

namespace smem::reduce::inline SMEM_BUILD {

constexpr int NARROW_MAX_ROW_BYTES = 128, NARROW_MAX_COLUMNS = 32;  ///< the widest rows
/// The fewest tiles per column: shorter columns are too little work to divide over blocks by tiles.
constexpr int64_t NARROW_MIN_TILES = 8;
/// 4 blocks per SM are 528 on an H200, so the 489 tiles of a million rows run at once. Three blocks
/// per SM are 396: 19.4 instead of 16.5 us for 1M x 8 in float32.
constexpr int NARROW_MIN_BLOCKS_PER_SM = 4, NARROW_MAX_TILES_PER_BLOCK = 8;

struct NarrowColumnsParams {
  Problem problem;
  int columns, tiles;  ///< per block; `tiles` is a power of two
  int vectors;         ///< per round

  int64_t splits() const {
    return ceil_div(problem.count, int64_t{tiles} * PARTIALS_PER_TILE * ELEMENTS_PER_PARTIAL);
  }
  int64_t blocks() const { return problem.output_count / columns * splits(); }
};

/// The offset of a thread partial in shared memory, in elements. One element is skipped after every
/// 128 bytes, so that a warp finds 32 thread partials of one column in different banks if the
/// number of columns is a power of two. For other numbers a third of the accesses conflict.
template <typename T>
constexpr int narrow_smem_offset(int thread_partial) {
  return thread_partial + thread_partial / (128 / static_cast<int>(sizeof(ThreadPartial<T>)));
}

/// The dynamic shared memory of a block, in bytes: the thread partials of its tiles.
template <typename T>
constexpr size_t narrow_dynamic_bytes(int tiles, int columns) {
  return narrow_smem_offset<T>(tiles * PARTIALS_PER_TILE * columns) * sizeof(ThreadPartial<T>);
}

/// The partials of tiles and columns, in static shared memory.
template <typename Acc>
using NarrowPartials = Tile<Acc, NARROW_MAX_TILES_PER_BLOCK, NARROW_MAX_COLUMNS>;

template <typename T, typename Op>
__global__ void __launch_bounds__(THREADS, NARROW_MIN_BLOCKS_PER_SM)
    narrow_columns_kernel(const __grid_constant__ NarrowColumnsParams params) {
  constexpr int W = VECTOR_WIDTH<T>, PARTIALS_PER_LANE = PARTIALS_PER_TILE / 32;
  using Acc = Partial<Op, T>;
  __shared__ NarrowPartials<Acc> partials;
  auto* const thread_partials = dynamic_shared<ThreadPartial<T>>();
  const Problem& problem = params.problem;
  const int columns = params.columns, vectors = params.vectors, round = PARTIALS_PER_TILE * columns;
  const int64_t split = blockIdx.x % problem.splits;
  const int64_t first_output = blockIdx.x / problem.splits * columns;
  const int64_t first_row = split * params.tiles * PARTIALS_PER_TILE * ELEMENTS_PER_PARTIAL;
  const T* const begin = static_cast<const T*>(problem.in) +
                         offsets_at(problem.outputs, first_output).of[IN] + first_row * columns;
  const int64_t elements = (problem.count - first_row) * columns;
  const OrderTransform<T, Op> transform(problem);

  launch_dependent_grids();
  wait_on_dependent_grids();
#pragma unroll 1
  for (int vector_index = threadIdx.x; vector_index < params.tiles * vectors;
       vector_index += THREADS) {
    // vector_index is a vector of a tile's first round; the vectors of the other rounds follow at a
    // distance of `round`.
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
    set_to_identity<Op>(accum);
#pragma unroll
    for (int r = 0; r < ELEMENTS_PER_PARTIAL; ++r) {
      const Vector<T, W> vector = loaded[r].elements();
#pragma unroll
      for (int v = 0; v < W; ++v) accum[v] = Op::combine(accum[v], transform.apply(vector, v));
    }
    // The last elements of the array may not be a whole vector.
    const int tail = static_cast<int>(left % W);
    if (tail > 0 && left < ELEMENTS_PER_PARTIAL * round &&
        (static_cast<int>(left) - tail) % round == 0) {
#pragma unroll
      for (int v = 0; v < W; ++v) {
        if (v < tail) accum[v] = Op::combine(accum[v], transform.apply(T((in + left - tail)[v])));
      }
    }
#pragma unroll
    for (int v = 0; v < W; ++v)
      thread_partials[narrow_smem_offset<T>(vector_index * W + v)] = accum[v];
  }
  __syncthreads();

  const int lane = threadIdx.x % 32;
#pragma unroll 1
  for (int tile_column = threadIdx.x / 32; tile_column < params.tiles * columns;
       tile_column += WARPS) {
    const int tile = tile_column / columns, column = tile_column % columns;
    ThreadPartial<T> lane_partials[PARTIALS_PER_LANE];
#pragma unroll
    for (int j = 0; j < PARTIALS_PER_LANE; ++j) {
      const int thread_partial = j * 32 + lane;
      lane_partials[j] =
          thread_partials[narrow_smem_offset<T>(tile * round + thread_partial * columns + column)];
    }
    // Lane l holds the partial above 32 thread partials, number l % 8.
    const auto fp32_partial =
        warp_reduce<Op>(warp_reduce_scatter<Op>(lane_partials), PARTIALS_PER_LANE);
    const Acc partial = warp_reduce<Op>(static_cast<Acc>(fp32_partial), 1, PARTIALS_PER_LANE);
    if (lane == 0) partials(tile, column) = partial;
  }
  __syncthreads();
  const int column = threadIdx.x;
  if (column >= columns) return;
  for (int stride = 1; stride < params.tiles; stride *= 2) {
    for (int s = 0; s < params.tiles; s += 2 * stride) {
      partials(s, column) =
          Op::combine(Acc(partials(s, column)), Acc(partials(s + stride, column)));
    }
  }
  store_result(problem, first_output + column, split, transform.invert(Acc(partials(0, column))));
}

/// Returns whether a block can have the shared memory of one tile. 30 to 32 columns of int32, whose
/// partials take 8 bytes, need more than the 64 KiB of compute capability 7.5.
inline bool narrow_tile_fits(DType dtype, int columns, const Device& device) {
  return with_element_type(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return narrow_dynamic_bytes<T>(1, columns) + sizeof(NarrowPartials<int64_t>) <=
           device.shared_bytes;
  });
}

/// Returns whether the outputs are a few long columns without gaps between the rows.
inline bool columns_are_narrow(const Problem& problem, const Device& device) {
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
         is_aligned(problem, width) && strides_are_multiples(problem.outputs, inner, width) &&
         narrow_tile_fits(problem.in_dtype, static_cast<int>(columns), device);
}

inline NarrowColumnsParams narrow_params(const Problem& problem, const Device& device) {
  const auto bytes = static_cast<int64_t>(size_of(problem.in_dtype));
  const int columns = static_cast<int>(problem.outputs.size[problem.outputs.rank - 1]);
  const auto vectors = static_cast<int>(PARTIALS_PER_TILE * columns * bytes / 16);
  const int64_t tiles = ceil_div(problem.count, int64_t{PARTIALS_PER_TILE} * ELEMENTS_PER_PARTIAL);
  const int64_t total_tiles = tiles * (problem.output_count / columns);
  const int64_t enough_blocks = 4 * int64_t{NARROW_MIN_BLOCKS_PER_SM} * device.sm_count;
  int tiles_per_block = 1;
  for (; tiles_per_block < NARROW_MAX_TILES_PER_BLOCK && tiles_per_block < tiles &&
         (tiles_per_block * vectors < THREADS * 3 / 4 ||
          total_tiles / tiles_per_block > enough_blocks) &&
         2 * tiles_per_block * PARTIALS_PER_TILE * columns * 8 <= int{DEFAULT_SHARED_BYTES};) {
    tiles_per_block *= 2;
  }
  return {problem, columns, tiles_per_block, vectors};
}

}  // namespace smem::reduce::inline SMEM_BUILD
