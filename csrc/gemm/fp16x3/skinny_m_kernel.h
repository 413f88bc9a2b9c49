// The product where out has few rows, up to 64: reading B is most of the work, and splitting it
// into memory first would be another two times. So each element of B is read once, split by warps
// of its block (split_producer.h) and multiplied by others (skinny_m_mma.h), which add in gemm.cu's
// order: a row has the bits that it has among many. Rows of A were split by the launch before.
//
// Where K is short, a block goes through several tiles of columns, and loads the next one's while
// it is at one: 131,072 columns of 128 took twice as long with a block for each.
#pragma once

#include <algorithm>
#include <type_traits>

#include "device/pdl.h"
#include "device/target.h"
#include "gemm/fp16x3/tensor_map.h"
#include "gemm/fp16x3/skinny_m_mma.h"
#include "gemm/fp16x3/skinny_m_params.h"
#include "gemm/sm90/batch.h"

namespace smem::gemm::fp16x3 {
inline namespace SMEM_BUILD {
namespace {

using namespace few;

/// By one thread: the halves of A's rows, a piece a box.
template <typename Shape>
__device__ __forceinline__ void load_rows(const Arguments& args, const Shared<Shape>& shared,
                                          bool again, typename Shape::Turn& turn) {
  for_each_tile(args, *shared.notes, again, [&](unsigned tile, unsigned) {
    const PartOfTile<Shape> of(args, tile);
    const auto of_a = static_cast<int>(args.a_lines.next_member_lines ? of.index : of.part);
    for (int stage = 0; stage < of.stages; ++stage, turn.next()) {
      Barrier& full = shared.full[turn.stage];
      shared.empty[turn.stage].wait(turn.parity ^ 1);
      full.arrive_and_expect_tx(PIECES * args.rows * PIECE_BYTES);
#pragma unroll
      for (int p = 0; p < PIECES; ++p) {
        const int first_half = 2 * (stage * STAGE_K + p * split::PIECE);
        tma_load(shared.a(turn.stage) + p * Shape::A_PIECE_BYTES, args.a_map, {first_half, 0, of_a},
                 full);
      }
    }
  });
}

/// By the warps that split. Notes the tiles that must be split again, where columns' powers of two
/// were not what they are found to be.
template <typename Shape>
__device__ __forceinline__ void split_columns(const Arguments& args, const Shared<Shape>& shared,
                                              bool again, typename Shape::Turn& turn) {
  typename Shape::Columns columns(args.b, args.tiles, args.stages, shared.raw);
  const auto split_tile = [&](auto known, unsigned tile, int stages, unsigned index) {
    constexpr bool KNOWN = decltype(known)::value;
    columns.begin_tile(tile);
    for (int stage = 0; stage < stages; ++stage, turn.next()) {
      columns.template split_stage<KNOWN>(stage, shared.b(turn.stage), shared.factors(turn.stage),
                                          shared.empty[turn.stage], turn.parity ^ 1);
      if (stage + 1 == stages && !columns.template finish<KNOWN>(shared.codes(turn.stage))) {
        atomicOr(shared.notes->again + index / 32, 1u << index % 32);
      }
      shared.full[turn.stage].arrive();
    }
  };
  if (!again) columns.load_from(blockIdx.x, gridDim.x, args.all_tiles);
  for_each_tile(args, *shared.notes, again, [&](unsigned tile, unsigned index) {
    const int stages = PartOfTile<Shape>(args, tile).stages;
    if (!again) return split_tile(std::false_type{}, tile, stages, index);
    columns.measure(tile, stages);
    columns.load_from(tile, 1, tile + 1);
    split_tile(std::true_type{}, tile, stages, index);
  });
}
/// By the warps that multiply; `warp` counts them.
template <typename Shape>
__device__ __forceinline__ void multiply_columns(const Arguments& args, const Shared<Shape>& shared,
                                                 int warp, bool again, typename Shape::Turn& turn) {
  const int group = warp % Shape::COLUMN_GROUPS;
  const int first_row = warp / Shape::COLUMN_GROUPS * Shape::ROW_TILES * TILE_ROWS;
  for_each_tile(args, *shared.notes, again, [&](unsigned tile, unsigned index) {
    const PartOfTile<Shape> of(args, tile);
    const int64_t first_col = int64_t{tile - of.index * args.tiles} * Shape::COLS + group * COLUMNS;
    const Lines a = lines_of(args.a_lines, of.member, of.part);
    int rows[Shape::ROW_TILES * 2];
#pragma unroll
    for (int i = 0; i < Shape::ROW_TILES * 2; ++i) {
      const int row = first_row + i / 2 * TILE_ROWS + threadIdx.x % 4 * 2 + i % 2;
      const int inside = min(row, args.rows - 1);
      rows[i] = Scale{-a.exponent[inside], static_cast<split::Mark>(a.mark[inside])}.code();
    }
    Products<Shape> products;
    products.add_all(of.stages, of.steps, shared, group, first_row, static_cast<int>(first_col),
                     turn);
    if (!again && shared.notes->again[index / 32] >> index % 32 & 1) return;
    write(products, args, of, first_row, first_col, rows, *shared.notes);
  });
}

template <typename Shape>
__global__ void __launch_bounds__(launch_bound(TARGET_HAS_SM90A, Shape::THREADS),
                                  Shape::BLOCKS_AT_ONCE)
    few_rows_kernel(const __grid_constant__ Arguments args) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  const Shared<Shape> shared;
  if (threadIdx.x < sizeof(Notes) / sizeof(uint32_t)) {
    reinterpret_cast<uint32_t*>(shared.notes)[threadIdx.x] = 0;
  }
  if (threadIdx.x == 0) {
    for (int i = 0; i < Shape::STAGES; ++i) {
      shared.full[i].init(Shape::SPLITTING + 1);
      shared.empty[i].init(Shape::MULTIPLYING);
    }
    fence_barrier_init();
  }
  launch_dependent_grids();
  __syncthreads();

  const int warp = threadIdx.x / WARP, multiplier = warp - Shape::SPLITTING / WARP;
  const bool splits = multiplier < 0, loads = multiplier == Shape::MULTIPLYING / WARP;
  typename Shape::Turn turn;
  if (!splits) wait_on_dependent_grids();
  bool again = false;
  do {
    if (splits) {
      split_columns(args, shared, again, turn);
    } else if (loads) {
      if (elect_one()) load_rows(args, shared, again, turn);
      __syncwarp();
    } else {
      multiply_columns(args, shared, multiplier, again, turn);
    }
    __syncthreads();
    const bool is_noted = threadIdx.x < MOST_TILES / 32 && shared.notes->again[threadIdx.x];
    again = __syncthreads_or(is_noted) && !again;
  } while (again);
  if (splits) wait_on_dependent_grids();
  if (!shared.notes->has_exact) return;
  for_each_tile(args, *shared.notes, false,
                [&](unsigned tile, unsigned) { compute_exact_lines<Shape>(args, tile); });
#endif
}

/// Whether a tile takes no longer than a block's start and end, so that a block had better go
/// through several. Long ones have a block each: SMs that are ready begin the next.
bool tiles_are_short(const split::Split& split) {
  constexpr int64_t LONG = 16 * STAGE_K;
  return split.part_length < LONG;
}

template <typename Shape>
void launch_few_rows(const Problem& problem, const split::Split& a, const split::Split& b,
                     float* partials, const Device& device) {
  const int64_t tiles = ceil_div(problem.N, Shape::COLS);
  const int64_t all = tiles * a.parts * inner_batch_count(problem);
  const int rows = static_cast<int>(problem.M);
  const Arguments args{box_map(a, rows),
                       b,
                       Lines(a),
                       Lines(b),
                       sm90::epilogue_of<float>(problem),
                       sm90::batch_strides(problem),
                       a.parts > 1 ? partials : nullptr,
                       static_cast<unsigned>(a.parts),
                       static_cast<unsigned>(tiles),
                       static_cast<unsigned>(all),
                       rows,
                       static_cast<int>(ceil_div(problem.K, STAGE_K)),
                       static_cast<int>(ceil_div(problem.K, split::PIECE))};
  const int64_t places = int64_t{Shape::BLOCKS_AT_ONCE} * device.sm_count;
  const int64_t fewest = std::max(std::min(all, places), ceil_div(all, int64_t{MOST_TILES}));
  const int64_t blocks = tiles_are_short(a) ? fewest : all;
  // No more blocks an SM than it takes to have all run at once: where there was room for
  // three, some had three and others one.
  const int64_t blocks_at_once = ceil_div(blocks, device.sm_count);
  const int64_t room = int64_t{sm90::SHARED_BYTES} / blocks_at_once - SYSTEM_BYTES;
  const size_t shared = std::max<int64_t>(Shape::SHARED, room);
  launch("fp16x3 few rows", few_rows_kernel<Shape>, {blocks, {Shape::THREADS}, shared, true},
         device, args);
}

}  // namespace

template <typename Lie>
void multiply_few(const Problem& problem, const split::Split& a, const split::Split& b,
                  float* partials, const Device& device) {
  const auto launch = [&](auto shape) {
    launch_few_rows<decltype(shape)>(problem, a, b, partials, device);
  };
  const auto blocks_of = [&](auto shape) {
    return ceil_div(problem.N, decltype(shape)::COLS) * inner_batch_count(problem);
  };
  // Whether all blocks run at once.
  const auto fit = [&](auto shape) {
    return blocks_of(shape) <= int64_t{decltype(shape)::BLOCKS_AT_ONCE} * device.sm_count;
  };
  // One more block an SM, with fewer loads under way, where that has all run at once.
  const auto launch_or = [&](auto shape, auto smaller) {
    if (!fit(shape) && fit(smaller)) return launch(smaller);
    launch(shape);
  };
  // What is seldom shares two shapes.
  if constexpr (!Lie::IN_PARTS) {
    using UpTo8 = Shape<Lie, 1, 1, 1, 2, 3>;
    if constexpr (Lie::SIDE_BY_SIDE) {
      if (problem.M <= 8) return launch_or(UpTo8{}, Shape<Lie, 1, 1, 1, 2, 2>{});
    }
    if (problem.M <= 8) return launch(UpTo8{});
    // Side by side, 8192 columns of 28,672 lost 5% by it, of 8192 they gained 12%.
    const bool may_be_smaller = !Lie::SIDE_BY_SIDE || problem.K <= 16384;
    if (problem.M <= 16 && may_be_smaller) {
      return launch_or(Shape<Lie, 1, 2, 1, 2, 3>{}, Shape<Lie, 1, 2, 1, 2, 2>{});
    }
  }
  if (problem.M <= 16) return launch(Shape<Lie, 1, 2, 1, 2, 3>{});
  // One group of columns, so that three blocks fit, but where that leaves two warps to split and
  // there are more blocks.
  if constexpr (std::is_same_v<Lie, AlongK>) {
    if (problem.M <= 32) return launch(Shape<Lie, 1, 4, 1, 2, 3>{});
  }
  if constexpr (std::is_same_v<Lie, AcrossK>) {
    using Narrow = Shape<Lie, 1, 2, 2, 2, 3>;
    if (problem.M <= 32 && (fit(Narrow{}) || tiles_are_short(a))) return launch(Narrow{});
    if (problem.M <= 32) return launch(Shape<Lie, 2, 2, 2, 2, 2>{});
    // Half the columns a block where there still is one an SM at most.
    using NarrowOf64 = Shape<Lie, 1, 4, 2, 2, 3>;
    if (blocks_of(NarrowOf64{}) <= device.sm_count) return launch(NarrowOf64{});
  }
  launch(std::conditional_t<Lie::SIDE_BY_SIDE, Shape<Lie, 2, 4, 2, 2, 3>,
                            Shape<Lie, 1, 4, 2, 2, 3>>{});
}

}  // namespace SMEM_BUILD

}  // namespace smem::gemm::fp16x3
