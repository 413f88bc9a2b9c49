// What both kernels of the product, gemm.cu and gemm_sm80.cu, do with the tiles of out: go through
// them, promote their accumulators, store them, and compute FALLBACK rows and columns.
//
// Both kernels keep a warp's accumulators in the same layout, that of mma.m16n8: `accum` has those
// of 16 rows and TILE_N columns, of which accumulator i of a thread is in row lane / 4, or 8 rows
// below if i & 2, and in column 8 (i / 4) + 2 (lane % 4) + i % 2.
//
// `Params` is the parameter of either kernel: Fp16x3Params or MmaProductParams. The members that
// are used here have the same names in both.
#pragma once

#include "gemm/batch.h"
#include "gemm/fp16x3/epilogue.h"
#include "gemm/fp16x3/fp32_fallback.h"
#include "gemm/fp16x3/promotion.h"
#include "gemm/tile_scheduler.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {

/// Rows of a tile, and elements of K per k block.
constexpr int TILE_M = 128, TILE_K = split::K_BLOCK;

/// Rows of tiles that are traversed together: 8 x 16 tiles at a time read hardly more bytes than
/// 11 x 12 do.
constexpr uint32_t SWIZZLE_SIZE = 8;

/// The work tiles, of tile_m x tile_n, of a problem with at most one batch loop.
inline TileScheduler make_scheduler(const Problem& problem, const SplitOperand& a, int tile_m,
                                    int tile_n) {
  const auto count = [](int64_t size, int64_t tile) {
    return static_cast<uint32_t>(ceil_div(size, tile));
  };
  return {count(problem.M, tile_m),
          count(problem.N, tile_n),
          static_cast<uint32_t>(a.k_slices),
          static_cast<uint32_t>(inner_batch_count(problem)),
          SWIZZLE_SIZE * TILE_M / static_cast<uint32_t>(tile_m),
          count(problem.K, TILE_K),
          count(a.k_slice_length, TILE_K)};
}

/// A width of tiles, and what a tile of it takes.
struct TileCost {
  int tile_n;
  int cycles;         ///< of an SM, per k block
  size_t smem_bytes;  ///< per block
};

/// The width of a problem's tiles.
struct TileChoice {
  int tile_n = 0;
  int64_t cycles = 0;  ///< of the busiest SM, for one k block of all of its tiles
};

/// Chooses the width by how long the busiest SM takes.
template <typename TileCosts>
TileChoice choose_tile(const TileCosts& costs, const Problem& problem, int64_t k_slices,
                       const Device& device) {
  TileChoice best;
  for (const TileCost& cost : costs) {
    const int64_t tiles = ceil_div(problem.M, TILE_M) * ceil_div(problem.N, cost.tile_n) *
                          inner_batch_count(problem) * k_slices;
    const int64_t cycles = ceil_div(tiles, device.sm_count) * cost.cycles;
    if (cost.smem_bytes <= device.shared_bytes && (best.tile_n == 0 || cycles < best.cycles)) {
      best = {cost.tile_n, cycles};
    }
  }
  return best;
}

/// The tiles of the calling block, by a static scheduler.
template <typename Params, typename Visit>
__device__ __forceinline__ void for_each_work_tile(const Params& params, const Visit& visit) {
  for (uint32_t i = blockIdx.x; i < params.scheduler.work_tiles; i += gridDim.x) {
    visit(work_tile_at(params.scheduler, i));
  }
}

__device__ __forceinline__ constexpr int promotion_group_of_accum(int i) {
  return promotion_group(i / 4 * 8 + i % 2);
}

/// Promotes a group's accumulators. Total i of the thread is at totals[i * WARP].
template <int ACCUMS>
__device__ __forceinline__ void promote_group(float (&accum)[ACCUMS], float* totals, int group,
                                              bool has_totals) {
#pragma unroll
  for (int i = 0; i < ACCUMS; ++i) {
    if (promotion_group_of_accum(i) != group) continue;
    float total = has_totals ? totals[i * WARP] : 0;
    promote(total, accum[i]);
    totals[i * WARP] = total;
  }
}

/// The value of accumulator i after `k_blocks` k blocks.
__device__ __forceinline__ float combine_accum(int i, const float* totals, float accum,
                                               float cross_accum, int k_blocks) {
  const bool was_promoted = promotion_group_of_accum(i) * PROMOTION_INTERVAL < k_blocks;
  return combine(was_promoted ? totals[i * WARP] : 0, accum, cross_accum);
}

/// The matrix of the tile's k slice; null without split-K.
template <typename Params>
__device__ __forceinline__ float* partials_of(const Params& params, const WorkTileInfo& tile) {
  const int64_t slice = int64_t{tile.batch} * params.scheduler.split_k_slices + tile.k_slice;
  const auto& out = params.epilogue.out;
  return params.partials ? params.partials + slice * out.rows * out.cols : nullptr;
}

/// The epilogue of a warp's 16 rows and COLS columns. With split-K it stores them, unscaled, to the
/// partials.
template <int COLS, bool CALLS_ACTIVATIONS, typename Params>
__device__ __forceinline__ SplitEpilogue<COLS, CALLS_ACTIVATIONS> split_epilogue(
    const Params& params, const WorkTileInfo& tile, int row, int col) {
  const SplitMetadata a = metadata_at(params.a, tile.batch, tile.k_slice);
  const SplitMetadata b = metadata_at(params.b, tile.batch, tile.k_slice);
  auto epilogue = epilogue_at_batch(params.epilogue, params.strides, tile.batch);
  if (params.partials) {
    const int64_t rows = epilogue.out.rows, cols = epilogue.out.cols;
    epilogue = {.out = {partials_of(params, tile), rows, cols, cols, 1}, .alpha = 1};
  }
  return {epilogue, a, b, row, col, !params.partials};
}

/// To be called by 256 threads when they have finished the tile, which has `tile_n` columns.
/// `shared`: as of compute_fallback_tile.
template <typename Params>
__device__ __forceinline__ void compute_fallback(const Params& params, const WorkTileInfo& tile,
                                                 int tile_n, unsigned char* shared) {
  const int64_t k_begin = tile.k_slice * params.k_slice_length;
  const int64_t left = params.problem.K - k_begin;
  const FallbackSlice slice{
      .batch = static_cast<unsigned>(tile.batch),
      .a = metadata_at(params.a, tile.batch, tile.k_slice),
      .b = metadata_at(params.b, tile.batch, tile.k_slice),
      .k_begin = k_begin,
      .length = min(left, params.k_slice_length),
      .partials = partials_of(params, tile),
  };
  compute_fallback_tile(params.problem, slice, int64_t{tile.row} * TILE_M,
                        int64_t{tile.col} * tile_n, tile_n, shared);
}

/// The same for all tiles of the calling block.
template <typename Params>
__device__ __forceinline__ void compute_fallback(const Params& params, int tile_n,
                                                 unsigned char* shared) {
  for_each_work_tile(
      params, [&](const WorkTileInfo& tile) { compute_fallback(params, tile, tile_n, shared); });
}

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
