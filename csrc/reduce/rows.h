// rows: warps run along the elements of an output.
//
// A warp reduces tiles of 2048 elements (reduce/tile_reduce.h), 16 bytes a load where the elements
// are neighbours, wherever they begin; 1 to 8 warps share a row, and one word a warp goes through
// shared memory. A warp that has a row of its own waits for nobody. RowsParams longer than a block
// takes leave a partial a split, and a second launch goes on from there.
//
// RowsParams of up to 256 elements are a kernel of their own: 4 to 32 lanes a row, four or eight
// rows a lane, so that as many loads are in flight as in a long row.
//
// So are rows that are a few vectors a lane (reduce/row_per_warp.h).
#pragma once

#include <algorithm>
#include <bit>

#include "device/pdl.h"
#include "reduce/element_type.h"
#include "reduce/layout.h"
#include "reduce/row_per_warp.h"
#include "reduce/store.h"
#include "reduce/tile_reduce.h"

namespace smem::reduce {
inline namespace SMEM_BUILD {

/// Segments a warp may take one after the other: of elements, and of partials, where one launch
/// less is worth more than work for every SM.
constexpr int MAX_TILES_PER_WARP = 8, MAX_PARTIAL_TILES_PER_WARP = 64;
/// Blocks that an SM runs at once, and those of rows of a warp each. What a second
/// launch costs, in the time of a tile, and how many partials of a row cost another.
constexpr int ROWS_MIN_BLOCKS_PER_SM = 3, TILED_ROW_PER_WARP_MIN_BLOCKS_PER_SM = 4,
              SECOND_LAUNCH_TILES = 2, PARTIALS_PER_TILE_TIME = 4096;
/// Blocks of short rows an SM that keep it busy to the end.
constexpr int SHORT_ROWS_BLOCKS_PER_SM = 16;

/// Levels of the tree above a warp's tiles. Nodes are of the type that they come to.
template <typename T, typename Op>
constexpr int TILE_LEVELS =
    std::bit_width(static_cast<unsigned>(
        std::is_same_v<T, Partial<Op, T>> ? MAX_PARTIAL_TILES_PER_WARP : MAX_TILES_PER_WARP)) -
    1;

/// The partial above `tiles` of them, a power of two, from tile `first` of an output on. Called
/// by a warp.
template <typename T, typename Op, RowLayout LAYOUT>
__device__ __forceinline__ Partial<Op, T> reduce_tiles(const Problem& problem, int64_t output,
                                                       int64_t first, int tiles) {
  TileReduce<T, Op, LAYOUT> tile{
      problem, static_cast<const T*>(problem.in) + offsets_at(problem.outputs, output).of[IN]};
  const int length = tile.LENGTH * problem.elements_per_partial;
  BinaryCounter<Op, Partial<Op, T>, TILE_LEVELS<T, Op>> counter;
  Partial<Op, T> partial{};
  for (int s = 0; s < tiles; ++s) partial = counter.push(s, tile.reduce((first + s) * length));
  return partial;
}

struct RowsParams {
  Problem problem;
  int level;           ///< 2^level warps share a row
  int tiles_per_warp;  ///< a power of two
};

/// LAYOUT_ID is a RowLayout: compilers agree on how an int is called in a kernel's name.
template <typename T, typename Op, int LAYOUT_ID>
__global__ void __launch_bounds__(THREADS, RowLayout(LAYOUT_ID) == RowLayout::nested
                                               ? 2
                                               : ROWS_MIN_BLOCKS_PER_SM)
    rows_kernel(const __grid_constant__ RowsParams rows) {
  using Acc = Partial<Op, T>;
  __shared__ Tile<Acc, 1, WARPS> partials;
  const Problem& problem = rows.problem;
  const int level = rows.level, warps_per_row = 1 << level;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  unsigned block = blockIdx.x, split = 0;
  if (problem.splits > 1) {
    const auto splits = static_cast<unsigned>(problem.splits);
    split = block % splits;
    block /= splits;
  }
  const int64_t first_row = int64_t{block} * (WARPS >> level);

  launch_dependent_grids();
  wait_on_dependent_grids();
  Acc partial = Op::template identity<Acc>();
  int64_t row = first_row + (warp >> level);
  if (row < problem.output_count) {
    const int64_t first_warp = int64_t{split} * warps_per_row + (warp & (warps_per_row - 1));
    partial = reduce_tiles<T, Op, RowLayout(LAYOUT_ID)>(
        problem, row, first_warp * rows.tiles_per_warp, rows.tiles_per_warp);
  }
  bool stores = lane == 0;
  if (level > 0) {
    if (lane == 0) partials(0, warp) = partial;
    __syncthreads();
    if (warp > 0) return;
    partial = lane < WARPS ? Acc(partials(0, lane)) : Op::template identity<Acc>();
    partial = warp_reduce<Op>(partial, 1, warps_per_row);
    row = first_row + (lane >> level);
    stores = lane < WARPS && (lane & (warps_per_row - 1)) == 0;
  }
  if (stores && row < problem.output_count)
    store_result(problem, row, split, OrderTransform<T, Op>(problem).invert(partial));
}

struct TiledRowPerWarpParams {
  Problem problem;
  int tiles, rounds;
};

/// RowsParams of few tiles, of whole vectors, a warp each, one after the other: the same with a
/// third of the instructions before the first load, and a block an SM more.
template <typename T, typename Op>
__global__ void __launch_bounds__(THREADS, TILED_ROW_PER_WARP_MIN_BLOCKS_PER_SM)
    tiled_row_per_warp_kernel(const __grid_constant__ TiledRowPerWarpParams rows) {
  const Problem& problem = rows.problem;
  const int64_t first_row = int64_t{blockIdx.x} * WARPS * rows.rounds + threadIdx.x / 32;

  launch_dependent_grids();
  wait_on_dependent_grids();
  for (int round = 0; round < rows.rounds; ++round) {
    const int64_t row = first_row + round * WARPS;
    if (row >= problem.output_count) return;
    const auto partial = reduce_tiles<T, Op, RowLayout::aligned>(problem, row, 0, rows.tiles);
    if (threadIdx.x % 32 == 0)
      store_result(problem, row, 0, OrderTransform<T, Op>(problem).invert(partial));
  }
}

/// RowsParams of a lane that are combined together, and rounds that a block lives for: of rows of
/// fewer lanes than a warp, whose blocks end at once if there are not too few, and of others.
constexpr int ROWS_PER_LANE = 4, MAX_SUBWARP_ROUNDS = 3, MAX_WARP_ROUNDS = 8;

struct ShortRowsParams {
  Problem problem;
  int lanes_per_row;  ///< a power of two from ROWS_PER_LANE
  int rounds;
};

/// VEC: elements a load. VECTORS: loads of a lane and a row.
template <typename T, typename Op, int VEC, int VECTORS>
__global__ void __launch_bounds__(THREADS, 3)
    short_rows_kernel(const __grid_constant__ ShortRowsParams short_rows) {
  constexpr int LEVEL = std::bit_width(unsigned{VEC}) - 1;
  constexpr int GROUPS = std::max(1, LOADS_IN_FLIGHT / (ROWS_PER_LANE * VECTORS));
  const Problem& problem = short_rows.problem;
  const int lanes = short_rows.lanes_per_row, lane = threadIdx.x % lanes, step = 32 / lanes;
  const int64_t warp = int64_t{blockIdx.x} * WARPS + threadIdx.x / 32;
  const int64_t stride = VEC > 1 ? 1 : problem.reduced.stride[0][0];
  const bool flat = problem.outputs.rank <= 1;
  const OrderTransform<T, Op> transform(problem);

  launch_dependent_grids();
  wait_on_dependent_grids();
  for (int round = 0; round < short_rows.rounds; ++round) {
    const int64_t first_row = (warp * short_rows.rounds + round) * GROUPS * ROWS_PER_LANE * step +
                              threadIdx.x % 32 / lanes;
    Loaded<T, VEC> loaded[GROUPS][ROWS_PER_LANE][VECTORS];
#pragma unroll
    for (int r = 0; r < GROUPS * ROWS_PER_LANE; ++r) {
      const int64_t row = first_row + r * step;
      if (row < problem.output_count) {
        const T* const begin = static_cast<const T*>(problem.in) +
                               (flat ? row * problem.outputs.stride[IN][0]
                                     : call_offsets_at(problem.outputs, row).of[IN]);
#pragma unroll
        for (int j = 0; j < VECTORS; ++j) {
          const int i = (j * lanes + lane) * VEC;
          if (i < problem.count) {
            loaded[r / ROWS_PER_LANE][r % ROWS_PER_LANE][j] = load_words<VEC>(begin + i * stride);
          }
        }
      }
    }
#pragma unroll
    for (int g = 0; g < GROUPS; ++g) {
      Partial<Op, T> partials[VECTORS] = {};
#pragma unroll
      for (int j = 0; j < VECTORS; ++j) {
        const bool exists = (j * lanes + lane) * VEC < problem.count;
        ThreadPartial<T> rows[ROWS_PER_LANE];
#pragma unroll
        for (int r = 0; r < ROWS_PER_LANE; ++r) {
          ThreadPartials<T, Op, VEC> thread_partials;
          if (exists) thread_partials.init(loaded[g][r][j].elements(), transform);
          rows[r] = thread_partials.reduce();
        }
        partials[j] =
            warp_reduce_widening<Op, T, LEVEL>(warp_reduce_scatter<Op>(rows), lanes, ROWS_PER_LANE);
      }
      const int64_t row = first_row + (g * ROWS_PER_LANE + lane) * step;
      if (lane < ROWS_PER_LANE && row < problem.output_count) {
        const Partial<Op, T> identity = Op::template identity<Partial<Op, T>>();
        store_result(problem, row, 0,
                     transform.invert(Op::combine(identity, tree_reduce<Op>(partials))));
      }
    }
  }
}

namespace {

/// One load of every lane for a row, or a few single elements. More partials than these, which few
/// rows have, take 2 us less as a tile: code that is cold to a second launch counts.
constexpr int SHORT_ROW_ELEMENTS = 256, SHORT_ROW_PARTIALS = 64;

bool is_short_row(const Problem& problem) {
  const int most = problem.elements_per_partial == 1 ? SHORT_ROW_PARTIALS : SHORT_ROW_ELEMENTS;
  return problem.count > 0 && problem.count <= most && problem.reduced.rank <= 1;
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

/// The map that is done earliest, if blocks follow each other without a gap and the last ones are
/// on the average half done when the others end; some that do not fit at once take a turn of their
/// own. A row of five tiles, say, goes to one warp where there are rows enough: eight warps
/// would leave three idle.
RowThreadMap row_thread_map(const Problem& problem, const Device& device) {
  const int64_t tile = int64_t{PARTIALS_PER_TILE} * tile_length_factor(size_of(problem.in_dtype)) *
                       problem.elements_per_partial;
  const int64_t tiles = std::max<int64_t>(1, ceil_div(problem.count, tile));
  const auto map_for = [&](int tiles_per_warp) {
    const int64_t warps = ceil_div(tiles, tiles_per_warp);
    const auto warps_per_row = static_cast<int>(std::min<int64_t>(WARPS, power_of_two_from(warps)));
    const int64_t splits = ceil_div(warps, warps_per_row);
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
    const double count = static_cast<double>(problem.count) / static_cast<double>(tile);
    const double partials = std::min(1.0, static_cast<double>(map.splits) / PARTIALS_PER_TILE_TIME);
    return rounds * std::min<double>(count, map.tiles_per_warp) +
           (map.splits > 1 ? SECOND_LAUNCH_TILES + partials : 0);
  };
  const int most =
      problem.elements_per_partial == 1 ? MAX_PARTIAL_TILES_PER_WARP : MAX_TILES_PER_WARP;
  RowThreadMap best = map_for(1);
  for (int tiles_per_warp = 2; tiles_per_warp <= most; tiles_per_warp *= 2) {
    const RowThreadMap longer = map_for(tiles_per_warp);
    if (cost(longer) < cost(best)) best = longer;
  }
  return best;
}

struct RowsLauncher {
  static constexpr const char* NAME = "rows";

  /// Half a tile and less is so little work that a second row pays for a block's start.
  template <typename T, typename Op>
  static void launch_tiled_row_per_warp(const Problem& problem, const Device& device,
                                        const RowThreadMap& map) {
    const int64_t enough = int64_t{SHORT_ROWS_BLOCKS_PER_SM} * device.sm_count * WARPS;
    const bool half_tile =
        2 * problem.count <=
        int64_t{PARTIALS_PER_TILE} * tile_length_factor(sizeof(T)) * problem.elements_per_partial;
    const int rounds = half_tile && problem.output_count >= 2 * enough ? 2 : 1;
    launch(NAME, tiled_row_per_warp_kernel<T, Op>,
           {ceil_div(problem.output_count, WARPS * rounds), {THREADS}, 0, problem.launch_with_pdl},
           device, TiledRowPerWarpParams{problem, map.tiles_per_warp, rounds});
  }

  template <typename T, typename Op, RowLayout LAYOUT>
  static void launch_rows(const Problem& problem, const Device& device) {
    const RowThreadMap map = row_thread_map(problem, device);
    if constexpr (LAYOUT == RowLayout::aligned) {
      if (map.warps_per_row == 1 && map.splits == 1)
        return launch_tiled_row_per_warp<T, Op>(problem, device, map);
    }
    launch(NAME, rows_kernel<T, Op, int(LAYOUT)>,
           {map.blocks, {THREADS}, 0, problem.launch_with_pdl}, device,
           RowsParams{problem, std::countr_zero(static_cast<unsigned>(map.warps_per_row)),
                      map.tiles_per_warp});
  }

  template <typename T, typename Op, int VEC, int VECTORS>
  static void launch_short_rows(const Problem& problem, const Device& device) {
    const int lanes = static_cast<int>(
        std::clamp<int64_t>(power_of_two_from(ceil_div(problem.count, VEC)), ROWS_PER_LANE, 32));
    const int64_t rows_per_round =
        int64_t{WARPS} * std::max(ROWS_PER_LANE, LOADS_IN_FLIGHT / VECTORS) * 32 / lanes;
    const int64_t enough = int64_t{SHORT_ROWS_BLOCKS_PER_SM} * device.sm_count * rows_per_round;
    const int most = lanes < 32 ? MAX_SUBWARP_ROUNDS : MAX_WARP_ROUNDS;
    const int64_t rounds = std::clamp<int64_t>(problem.output_count / enough, 1, most);
    launch(NAME, short_rows_kernel<T, Op, VEC, VECTORS>,
           {ceil_div(problem.output_count, rows_per_round * rounds),
            {THREADS},
            0,
            problem.launch_with_pdl},
           device, ShortRowsParams{problem, lanes, static_cast<int>(rounds)});
  }

  template <typename T, typename Op>
  static void run_short_rows(const Problem& problem, const Device& device) {
    constexpr int WIDTH = VECTOR_WIDTH<T>, MOST = std::max(1, SHORT_ROW_ELEMENTS / (32 * WIDTH));
    const bool wide = problem.count % WIDTH == 0 && rows_are_vectors(problem, WIDTH);
    if (wide && problem.count <= 32 * WIDTH)
      return launch_short_rows<T, Op, WIDTH, 1>(problem, device);
    if (wide) return launch_short_rows<T, Op, WIDTH, MOST>(problem, device);
    return launch_short_rows<T, Op, 1, SHORT_ROW_ELEMENTS / 32>(problem, device);
  }

  /// Runs the kernel of up to `vectors` vectors a lane, if there is one.
  template <typename T, typename Op, int VECTORS>
  static bool launch_row_per_warp(const Problem& problem, const Device& device, int64_t vectors) {
    if constexpr (VECTORS > MAX_VECTORS_PER_LANE<T>) {
      return false;
    } else {
      if (vectors > VECTORS)
        return launch_row_per_warp<T, Op, VECTORS + 1>(problem, device, vectors);
      launch(NAME, row_per_warp_kernel<T, Op, VECTORS>,
             {ceil_div(problem.output_count, WARPS), {THREADS}, 0, problem.launch_with_pdl}, device,
             RowPerWarpParams{problem});
      return true;
    }
  }

  /// Whether rows are so short that a kernel of their own has taken them.
  template <typename T, typename Op>
  static bool run_row_per_warp(const Problem& problem, const Device& device, RowLayout layout) {
    constexpr int WIDTH = VECTOR_WIDTH<T>;
    if constexpr (MAX_VECTORS_PER_LANE<T> > 0) {
      if (problem.count <= SHORT_ROW_ELEMENTS ||
          (layout != RowLayout::aligned && layout != RowLayout::unaligned) ||
          problem.outputs.rank != 1 || problem.outputs.stride[IN][0] < WIDTH) {
        return false;
      }
      const int misalignment =
          layout == RowLayout::unaligned ? WIDTH - 1 : 0;  // of a row's first vector, at most
      const int64_t vectors = ceil_div(problem.count + misalignment, 32 * WIDTH);
      const bool many = problem.output_count >= int64_t{MIN_ALIGNED_ROWS_PER_SM} * device.sm_count;
      if (layout == RowLayout::aligned && (vectors > MAX_ALIGNED_VECTORS_PER_LANE || !many))
        return false;
      return launch_row_per_warp<T, Op, MIN_VECTORS_PER_LANE<T>>(problem, device, vectors);
    }
    return false;
  }

  template <typename T, typename Op>
  static void run(const Problem& problem, const Device& device) {
    if (is_short_row(problem)) return run_short_rows<T, Op>(problem, device);
    const RowLayout layout = row_layout_of<T>(problem);
    if (run_row_per_warp<T, Op>(problem, device, layout)) return;
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

}  // namespace SMEM_BUILD
}  // namespace smem::reduce
