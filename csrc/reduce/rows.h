// rows: reductions along contiguous or nearby elements of an output (a row of memory).
//
// Problem: out[o] = op over the elements of row o, for any strides.
//
// Threads: a block has 8 warps. A warp reduces tiles of 2048 elements (reduce/tile_reduce.h) by
// 16-byte loads wherever the row is contiguous, and 1, 2, 4 or 8 warps share a row. If more than
// one warp shares a row, the block combines the warps' partials in shared memory.
//
//   row       | tile 0 | tile 1 | tile 2 | tile 3 | ...   tiles_per_warp consecutive tiles per warp
//   warp          0        0        1        1            warps_per_row warps per row and block
//   split         0        0        0        0      ...   one block per split of a row
//
// A row that is longer than one block takes is divided into splits; each block stores one partial,
// and a second launch reduces the partials of a row.
//
// There are three kernels for shorter rows:
//   tiled_row_per_warp_kernel   aligned rows of up to 8 tiles, one warp per row, no barrier
//   row_per_warp_kernel         up to a few vectors per lane (reduce/row_per_warp.h)
//   short_rows_kernel           up to 256 elements, several rows per warp (reduce/short_rows.h)
//
// Order of additions: reduce/reduction_tree.h, for all of them. Thresholds, the cost model and
// launch bounds may be tuned without changing a bit of the results.
#pragma once

#include <algorithm>
#include <bit>

#include "device/pdl.h"
#include "reduce/element_type.h"
#include "reduce/layout.h"
#include "reduce/row_per_warp.h"
#include "reduce/short_rows.h"
#include "reduce/store.h"
#include "reduce/tile_reduce.h"

namespace smem::reduce::inline SMEM_BUILD {

/// The most tiles that one warp reduces in sequence: of elements, and of partials of an earlier
/// pass. The latter limit is higher because one launch less is worth more than work for every SM.
constexpr int MAX_TILES_PER_WARP = 8, MAX_PARTIAL_TILES_PER_WARP = 64;
/// Launch bounds of rows_kernel and tiled_row_per_warp_kernel, which are also the blocks per SM in
/// the cost model. The unit of the model's costs is the time in which a warp reduces one tile; a
/// second launch costs SECOND_LAUNCH_TILES, and up to one more as the partials of a row approach
/// PARTIALS_PER_TILE_TIME. Fitted on an H200: the model's choice was within 2% of the best of 1, 2,
/// 4 and 8 tiles per warp on all 23 problems that were timed.
constexpr int ROWS_MIN_BLOCKS_PER_SM = 3, TILED_ROW_PER_WARP_MIN_BLOCKS_PER_SM = 4,
              SECOND_LAUNCH_TILES = 2, PARTIALS_PER_TILE_TIME = 4096;
/// Blocks of short rows per SM that are enough to keep the SM busy to the end.
constexpr int SHORT_ROWS_BLOCKS_PER_SM = 16;

/// Levels of the tree above a warp's tiles. Elements that have the partials' type may be the
/// partials of an earlier pass.
template <typename T, typename Op>
constexpr int TILE_LEVELS =
    std::bit_width(static_cast<unsigned>(
        std::is_same_v<T, Partial<Op, T>> ? MAX_PARTIAL_TILES_PER_WARP : MAX_TILES_PER_WARP)) -
    1;

/// The partial above `tiles` tiles (a power of two) of an output, from tile `first` on. Called by a
/// warp.
template <typename T, typename Op, RowLayout LAYOUT>
__device__ __forceinline__ Partial<Op, T> reduce_tiles(const Problem& problem,
                                                       const TwoLoops* loops, int64_t output,
                                                       int64_t first, int tiles) {
  TileReduce<T, Op, LAYOUT> tile{
      problem, loops,
      static_cast<const T*>(problem.in) + offsets_at(problem.outputs, output).of[IN]};
  const int length = tile.LENGTH * problem.elements_per_partial;
  BinaryCounter<Op, Partial<Op, T>, TILE_LEVELS<T, Op>> counter;
  Partial<Op, T> partial{};
  for (int s = 0; s < tiles; ++s) partial = counter.push(s, tile.reduce((first + s) * length));
  return partial;
}

struct RowsParams {
  Problem problem;
  int warps_per_row_log2;  ///< log2 of the warps per row
  int tiles_per_warp;      ///< a power of two
  TwoLoops loops;
};

/// LAYOUT_ID is a RowLayout. It is an int because all compilers mangle an int the same way.
template <typename T, typename Op, int LAYOUT_ID>
__global__ void __launch_bounds__(THREADS, RowLayout(LAYOUT_ID) == RowLayout::nested
                                               ? 2
                                               : ROWS_MIN_BLOCKS_PER_SM)
    rows_kernel(const __grid_constant__ RowsParams params) {
  using Acc = Partial<Op, T>;
  __shared__ Tile<Acc, 1, WARPS> partials;
  const Problem& problem = params.problem;
  const int log2 = params.warps_per_row_log2, warps_per_row = 1 << log2;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  unsigned block = blockIdx.x, split = 0;
  if (problem.splits > 1) {
    const auto splits = static_cast<unsigned>(problem.splits);
    split = block % splits;
    block /= splits;
  }
  const int64_t first_row = int64_t{block} * (WARPS >> log2);

  launch_dependent_grids();
  wait_on_dependent_grids();
  Acc partial = Op::template identity<Acc>();
  int64_t row = first_row + (warp >> log2);
  if (row < problem.output_count) {
    const int64_t first_warp = int64_t{split} * warps_per_row + (warp & (warps_per_row - 1));
    partial = reduce_tiles<T, Op, RowLayout(LAYOUT_ID)>(
        problem, &params.loops, row, first_warp * params.tiles_per_warp, params.tiles_per_warp);
  }
  bool stores = lane == 0;
  if (log2 > 0) {
    if (lane == 0) partials(0, warp) = partial;
    __syncthreads();
    if (warp > 0) return;
    partial = lane < WARPS ? Acc(partials(0, lane)) : Op::template identity<Acc>();
    partial = warp_reduce<Op>(partial, 1, warps_per_row);
    row = first_row + (lane >> log2);
    stores = lane < WARPS && (lane & (warps_per_row - 1)) == 0;
  }
  if (stores && row < problem.output_count)
    store_result(problem, row, split, OrderTransform<T, Op>(problem).invert(partial));
}

struct TiledRowPerWarpParams {
  Problem problem;
  int tiles, rounds;
};

/// Aligned rows of few tiles, one warp per row. It does the same as rows_kernel with a third of the
/// instructions before the first load, and fits one block more per SM.
template <typename T, typename Op>
__global__ void __launch_bounds__(THREADS, TILED_ROW_PER_WARP_MIN_BLOCKS_PER_SM)
    tiled_row_per_warp_kernel(const __grid_constant__ TiledRowPerWarpParams params) {
  const Problem& problem = params.problem;
  const int64_t first_row = int64_t{blockIdx.x} * WARPS * params.rounds + threadIdx.x / 32;

  launch_dependent_grids();
  wait_on_dependent_grids();
  for (int round = 0; round < params.rounds; ++round) {
    const int64_t row = first_row + round * WARPS;
    if (row >= problem.output_count) return;
    const auto partial =
        reduce_tiles<T, Op, RowLayout::aligned>(problem, nullptr, row, 0, params.tiles);
    if (threadIdx.x % 32 == 0)
      store_result(problem, row, 0, OrderTransform<T, Op>(problem).invert(partial));
  }
}

namespace {

/// Short rows: one vector per lane, or up to 8 single elements. Rows of more than
/// SHORT_ROW_PARTIALS partials of an earlier pass are reduced as tiles, which takes 2 us less: the
/// code of a second launch is not in the instruction cache yet, and this kernel has more of it.
constexpr int SHORT_ROW_ELEMENTS = 256, SHORT_ROW_PARTIALS = 64;

bool is_short_row(const Problem& problem) {
  const int max_count = problem.elements_per_partial == 1 ? SHORT_ROW_PARTIALS : SHORT_ROW_ELEMENTS;
  return problem.count > 0 && problem.count <= max_count && problem.reduced.rank <= 1;
}

template <typename T>
RowLayout row_layout_of(const Problem& problem) {
  const OffsetCalculator<1>& loop = problem.reduced;
  if (rows_are_vectors(problem, VECTOR_WIDTH<T>)) return RowLayout::aligned;
  if (loop.rank == 1 && loop.stride[0][0] == 1) return RowLayout::unaligned;
  return nested_rows_are_vectors(problem, VECTOR_WIDTH<T>) ? RowLayout::nested : RowLayout::strided;
}

struct RowThreadMap {
  int warps_per_row, tiles_per_warp;
  int64_t splits, blocks;
};

/// `needed` splits, or up to three more, so that the second launch loads its partials by vectors:
/// seven partials one by one take 1.4 us longer than eight. The blocks that are added have no
/// elements and store identities. They cost nothing while all blocks run at once.
int64_t split_count(int64_t needed, const Problem& problem, const Device& device) {
  constexpr int64_t PARTIALS_PER_VECTOR = 4;  // of the smallest dtype of partials, 4 bytes
  const int64_t splits = round_up(needed, PARTIALS_PER_VECTOR);
  const bool run_at_once =
      splits * problem.output_count <= int64_t{ROWS_MIN_BLOCKS_PER_SM} * device.sm_count;
  return needed > 1 && run_at_once ? splits : needed;
}

/// The map with the lowest estimated time. Blocks follow each other without a gap; when there are
/// more than fit at once, the last ones are half done on average when the others end, and they take
/// at least two rounds. A row of five tiles, for example, goes to one warp if there are enough
/// rows, because eight warps would leave three idle.
RowThreadMap row_thread_map(const Problem& problem, const Device& device) {
  const int64_t tile = int64_t{PARTIALS_PER_TILE} * tile_length_factor(size_of(problem.in_dtype)) *
                       problem.elements_per_partial;
  const int64_t tiles = std::max<int64_t>(1, ceil_div(problem.count, tile));
  const auto map_for = [&](int tiles_per_warp) {
    const int64_t warps = ceil_div(tiles, tiles_per_warp);
    const auto warps_per_row = static_cast<int>(std::min<int64_t>(WARPS, next_power_of_two(warps)));
    const int64_t splits = split_count(ceil_div(warps, warps_per_row), problem, device);
    return RowThreadMap{warps_per_row, tiles_per_warp, splits,
                        splits * ceil_div(problem.output_count, WARPS / warps_per_row)};
  };
  const auto cost = [&](const RowThreadMap& map) {
    const int blocks_per_sm =
        map.warps_per_row == 1 ? TILED_ROW_PER_WARP_MIN_BLOCKS_PER_SM : ROWS_MIN_BLOCKS_PER_SM;
    const double blocks = static_cast<double>(map.blocks) / device.sm_count;
    const double waves = blocks / ROWS_MIN_BLOCKS_PER_SM;
    const double rounds =
        blocks > blocks_per_sm ? std::max(2.0, waves) + 0.45 : std::max(1.0, waves);
    const double row_tiles = static_cast<double>(problem.count) / static_cast<double>(tile);
    const double partials_cost =
        std::min(1.0, static_cast<double>(map.splits) / PARTIALS_PER_TILE_TIME);
    return rounds * std::min<double>(row_tiles, map.tiles_per_warp) +
           (map.splits > 1 ? SECOND_LAUNCH_TILES + partials_cost : 0);
  };
  const int max_tiles =
      problem.elements_per_partial == 1 ? MAX_PARTIAL_TILES_PER_WARP : MAX_TILES_PER_WARP;
  RowThreadMap best = map_for(1);
  for (int tiles_per_warp = 2; tiles_per_warp <= max_tiles; tiles_per_warp *= 2) {
    const RowThreadMap longer = map_for(tiles_per_warp);
    if (cost(longer) < cost(best)) best = longer;
  }
  return best;
}

struct RowsLauncher {
  static constexpr const char* NAME = "rows";

  /// Half a tile or less is so little work that a second row per warp pays for the start of a
  /// block.
  template <typename T, typename Op>
  static void launch_tiled_row_per_warp(const Problem& problem, const Device& device,
                                        const RowThreadMap& map) {
    const int64_t enough_rows = int64_t{SHORT_ROWS_BLOCKS_PER_SM} * device.sm_count * WARPS;
    const bool half_tile =
        2 * problem.count <=
        int64_t{PARTIALS_PER_TILE} * tile_length_factor(sizeof(T)) * problem.elements_per_partial;
    const int rounds = half_tile && problem.output_count >= 2 * enough_rows ? 2 : 1;
    launch_blocks(NAME, tiled_row_per_warp_kernel<T, Op>,
                  ceil_div(problem.output_count, WARPS * rounds), device,
                  TiledRowPerWarpParams{problem, map.tiles_per_warp, rounds});
  }

  template <typename T, typename Op, RowLayout LAYOUT>
  static void launch_rows(const Problem& problem, const Device& device) {
    const RowThreadMap map = row_thread_map(problem, device);
    if constexpr (LAYOUT == RowLayout::aligned) {
      if (map.warps_per_row == 1 && map.splits == 1)
        return launch_tiled_row_per_warp<T, Op>(problem, device, map);
    }
    launch_blocks(NAME, rows_kernel<T, Op, int(LAYOUT)>, map.blocks, device,
                  RowsParams{problem, std::countr_zero(static_cast<unsigned>(map.warps_per_row)),
                             map.tiles_per_warp, TwoLoops(problem)});
  }

  template <typename T, typename Op, int VEC, int VECTORS>
  static void launch_short_rows(const Problem& problem, const Device& device) {
    const int lanes = static_cast<int>(
        std::clamp<int64_t>(next_power_of_two(ceil_div(problem.count, VEC)), ROWS_PER_LANE, 32));
    const int64_t rows_per_round =
        int64_t{WARPS} * std::max(ROWS_PER_LANE, LOADS_IN_FLIGHT / VECTORS) * 32 / lanes;
    const int64_t enough_rows =
        int64_t{SHORT_ROWS_BLOCKS_PER_SM} * device.sm_count * rows_per_round;
    const int max_rounds = lanes < 32 ? MAX_SUBWARP_ROUNDS : MAX_WARP_ROUNDS;
    const int64_t rounds = std::clamp<int64_t>(problem.output_count / enough_rows, 1, max_rounds);
    launch_blocks(NAME, short_rows_kernel<T, Op, VEC, VECTORS>,
                  ceil_div(problem.output_count, rows_per_round * rounds), device,
                  ShortRowsParams{problem, lanes, static_cast<int>(rounds)});
  }

  template <typename T, typename Op>
  static void run_short_rows(const Problem& problem, const Device& device) {
    constexpr int VEC = VECTOR_WIDTH<T>, MAX_VECTORS = std::max(1, SHORT_ROW_ELEMENTS / (32 * VEC));
    const bool wide = problem.count % VEC == 0 && rows_are_vectors(problem, VEC);
    if (wide && problem.count <= 32 * VEC) return launch_short_rows<T, Op, VEC, 1>(problem, device);
    if (wide) return launch_short_rows<T, Op, VEC, MAX_VECTORS>(problem, device);
    return launch_short_rows<T, Op, 1, SHORT_ROW_ELEMENTS / 32>(problem, device);
  }

  /// Launches the instance for `vectors` vectors per lane. Returns false if there is none.
  template <typename T, typename Op, int VECTORS>
  static bool launch_row_per_warp(const Problem& problem, const Device& device, int64_t vectors) {
    if constexpr (VECTORS > MAX_VECTORS_PER_LANE<T>) {
      return false;
    } else {
      if (vectors > VECTORS)
        return launch_row_per_warp<T, Op, VECTORS + 1>(problem, device, vectors);
      launch_blocks(NAME, row_per_warp_kernel<T, Op, VECTORS>,
                    ceil_div(problem.output_count, WARPS), device, RowPerWarpParams{problem});
      return true;
    }
  }

  /// Launches row_per_warp_kernel if it is the fastest for these rows; returns whether it did.
  template <typename T, typename Op>
  static bool run_row_per_warp(const Problem& problem, const Device& device, RowLayout layout) {
    constexpr int VEC = VECTOR_WIDTH<T>;
    if constexpr (MAX_VECTORS_PER_LANE<T> > 0) {
      const bool is_unaligned = layout == RowLayout::unaligned;
      if ((layout != RowLayout::aligned && !is_unaligned) || problem.elements_per_partial == 1 ||
          problem.outputs.rank != 1 || problem.outputs.stride[IN][0] < VEC) {
        return false;
      }
      // elements before a row in its first vector, at most
      const int misalignment = is_unaligned ? VEC - 1 : 0;
      const int64_t vectors = ceil_div(problem.count + misalignment, 32 * VEC);
      const bool many = problem.output_count >= int64_t{MIN_ALIGNED_ROWS_PER_SM} * device.sm_count;
      const bool takes = is_unaligned ? problem.count >= MIN_UNALIGNED_ELEMENTS
                                      : problem.count > SHORT_ROW_ELEMENTS && many &&
                                            vectors <= MAX_ALIGNED_VECTORS_PER_LANE;
      return takes && launch_row_per_warp<T, Op, 1>(problem, device, vectors);
    }
    return false;
  }

  template <typename T, typename Op>
  static void run(const Problem& problem, const Device& device) {
    const RowLayout layout = row_layout_of<T>(problem);
    if (run_row_per_warp<T, Op>(problem, device, layout)) return;
    if (is_short_row(problem)) return run_short_rows<T, Op>(problem, device);
    switch (layout) {
      case RowLayout::aligned:
        return launch_rows<T, Op, RowLayout::aligned>(problem, device);
      case RowLayout::unaligned:
        return launch_rows<T, Op, RowLayout::unaligned>(problem, device);
      case RowLayout::nested:
        return launch_rows<T, Op, RowLayout::nested>(problem, device);
      default:
        return launch_rows<T, Op, RowLayout::strided>(problem, device);
    }
  }
};

}  // namespace

template <typename Op>
void launch_rows(const Problem& problem, const Device& device) {
  with_element_type(problem.in_dtype, [&](auto tag) {
    RowsLauncher::run<typename decltype(tag)::type, Op>(problem, device);
  });
}

}  // namespace smem::reduce::inline SMEM_BUILD
