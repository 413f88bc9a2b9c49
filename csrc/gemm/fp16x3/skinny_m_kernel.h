// out = A B for up to 64 rows of A. Reading B is most of the work, and splitting it into memory
// first would move two more times its bytes. So each element of B is read once, split by some warps
// of a block and multiplied by others, in gemm.cu's order: a row of out has the same bits as in a
// product with many rows. The previous launch has split A.
//
// If B's split is kept, hi and lo are in memory already, and TMA loads them (hi_lo_producer.h).
// Such a kernel has one load warp for B and no split warps.
//
// Warp roles. A block computes tiles of TILE_N columns (16 per column group) by all rows.
//
//   split warps    WARPS per column group: load float32 columns of B, split them (split_producer.h)
//   mma warps      row_warps per column group: ldmatrix, mma.sync, epilogue (skinny_m_mma.h)
//   load warps     hi and lo of A's rows: one thread by TMA, or several warps by cp.async
//
// Pipeline: a stage holds 128 of K.
//
//   load warps   | wait empty[s] | A -> stage s ----------------------+
//   split warps  | cp.async B -> registers, split | wait empty[s] | hi, lo of B -> stage s, full[s]
//                                                                                             |
//   mma warps      wait full[s] | rescale accumulators | mma, promote | arrive empty[s] <-----+
//
// The split is speculative. A tile whose columns turn out to have been split by a wrong scale is
// flagged (RecomputeFlags) and computed again after the block's other tiles. At last the block
// computes FALLBACK rows and columns by FMAs.
//
// If K is short, a block goes through several tiles of columns and loads the next tile's columns
// during the current one: 131,072 columns of 128 took twice as long with one block per tile.
//
// What may be changed: the policies (skinny_m_params.h) and their choice in launch_skinny_m_layout
// and launch_skinny_m_hi_lo do not change the results. The order of the additions does; see
// promotion.h.
#pragma once

#include <algorithm>
#include <type_traits>

#include "device/cp_async.h"
#include "device/pdl.h"
#include "device/prefetch_params.h"
#include "device/target.h"
#include "gemm/batch.h"
#include "gemm/fp16x3/skinny_m_mma.h"
#include "gemm/fp16x3/skinny_m_params.h"
#include "gemm/fp16x3/tensor_map.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {
namespace {

using namespace skinny_m;

/// A load warp with TMA, one thread: loads hi and lo of A's rows, or of a tile's columns of B, a
/// box per k block.
template <typename Config, Tensor OPERAND>
__device__ __forceinline__ void load_by_tma(const SkinnyMParams& params,
                                            const SkinnyMSmem<Config>& smem, bool recompute,
                                            typename Config::Pipeline& pipeline) {
  constexpr bool IS_A = OPERAND == A;
  constexpr int BOX_PITCH = IS_A ? Config::A_K_BLOCK_BYTES : Config::Producer::K_BLOCK_PITCH;
  const CUtensorMap& map = IS_A ? params.a_map : params.b_map;
  const bool has_batch = (IS_A ? params.a_metadata : params.b_metadata).batch_rows != 0;
  const int box_rows = IS_A ? params.rows : Config::TILE_N;
  for_each_tile(params, *smem.flags, recompute, [&](unsigned tile, unsigned) {
    const TileKSlice<Config> slice(params, tile);
    const auto first_row =
        IS_A ? 0 : static_cast<int>(tile - slice.index * params.tiles) * Config::TILE_N;
    const auto slice_index = static_cast<int>(has_batch ? slice.index : slice.k_slice);
    for (int stage = 0; stage < slice.stages; ++stage, pipeline.next()) {
      Barrier& full = smem.full[pipeline.stage];
      smem.empty[pipeline.stage].wait(pipeline.parity ^ 1);
      full.arrive_and_expect_tx(STAGE_K_BLOCKS * box_rows * K_BLOCK_BYTES);
      unsigned char* const to = IS_A ? smem.a(pipeline.stage) : smem.b(pipeline.stage);
#pragma unroll
      for (int i = 0; i < STAGE_K_BLOCKS; ++i) {
        const int hi_lo_offset = 2 * (stage * STAGE_K + i * split::K_BLOCK);
        tma_load(to + i * BOX_PITCH, map, {hi_lo_offset, first_row, slice_index}, full);
      }
    }
  });
}

/// The load warps with cp.async, `thread` of their threads: they copy the same vectors to the same
/// places, eight lanes a row.
template <typename Config>
__device__ __forceinline__ void load_a_by_cp_async(const SkinnyMParams& params,
                                                   const SkinnyMSmem<Config>& smem, int thread,
                                                   bool recompute,
                                                   typename Config::Pipeline& pipeline) {
  constexpr int VEC = 16 / sizeof(half), VECS_PER_ROW = K_BLOCK_BYTES / 16;
  constexpr int ROWS_PER_PASS = Config::LOAD_WARPS * WARP / VECS_PER_ROW;
  static_assert(ROWS_PER_PASS % VECS_PER_ROW == 0, "a thread's vectors have the same swizzle");
  const int vec = thread % VECS_PER_ROW, first_row = thread / VECS_PER_ROW;
  const int64_t pitch = params.a_rows.pitch / sizeof(half);
  const int to_offset = first_row * K_BLOCK_BYTES + (vec ^ first_row % VECS_PER_ROW) * 16;
  for_each_tile(params, *smem.flags, recompute, [&](unsigned tile, unsigned) {
    const TileKSlice<Config> slice(params, tile);
    const int64_t a_slice = params.a_metadata.batch_rows ? slice.index : slice.k_slice;
    const half* from = params.a_rows.data + (a_slice * params.rows + first_row) * pitch + vec * VEC;
    for (int stage = 0; stage < slice.stages; ++stage, pipeline.next()) {
      smem.empty[pipeline.stage].wait(pipeline.parity ^ 1);
      unsigned char* const to = smem.a(pipeline.stage) + to_offset;
#pragma unroll
      for (int pass = 0; pass < Config::TILE_M / ROWS_PER_PASS; ++pass) {
        if (pass * ROWS_PER_PASS + first_row >= params.rows) break;
#pragma unroll
        for (int i = 0; i < STAGE_K_BLOCKS; ++i) {
          cp_async_or_zero<16>(
              to + i * Config::A_K_BLOCK_BYTES + pass * ROWS_PER_PASS * K_BLOCK_BYTES,
              from + pass * ROWS_PER_PASS * pitch + i * 2 * split::K_BLOCK,
              stage * STAGE_K_BLOCKS + i < slice.k_blocks);
        }
      }
      smem.full[pipeline.stage].arrive_after_copies();
      from += STAGE_K_BLOCKS * 2 * split::K_BLOCK;
    }
  });
}

/// The load warps; `warp` counts them.
template <typename Config>
__device__ __forceinline__ void load_a(const SkinnyMParams& params, const SkinnyMSmem<Config>& smem,
                                       int warp, bool recompute,
                                       typename Config::Pipeline& pipeline) {
  if constexpr (Config::LOAD_A == LoadA::CP_ASYNC) {
    load_a_by_cp_async(params, smem, warp * WARP + threadIdx.x % WARP, recompute, pipeline);
  } else if (elect_one()) {
    load_by_tma<Config, A>(params, smem, recompute, pipeline);
  }
  __syncwarp();
}

/// The split warps. Flags the tiles whose columns were split by a wrong scale.
template <typename Config>
__device__ __forceinline__ void split_b(const SkinnyMParams& params,
                                        const SkinnyMSmem<Config>& smem, bool recompute,
                                        typename Config::Pipeline& pipeline) {
  typename Config::Producer producer(params.b, params.tiles, params.stages, smem.raw);
  const auto split_tile = [&](auto is_final, unsigned tile, int stages, unsigned index) {
    constexpr bool FINAL = decltype(is_final)::value;
    producer.begin_tile(tile);
    for (int stage = 0; stage < stages; ++stage, pipeline.next()) {
      producer.template split_stage<FINAL>(stage, smem.b(pipeline.stage),
                                           smem.factors(pipeline.stage), smem.empty[pipeline.stage],
                                           pipeline.parity ^ 1);
      if (stage + 1 == stages &&
          !producer.template finish_tile<FINAL>(smem.packed_scales(pipeline.stage))) {
        atomicOr(smem.flags->tiles + index / 32, 1u << index % 32);
      }
      smem.full[pipeline.stage].arrive();
    }
  };
  if (!recompute) producer.prefetch(blockIdx.x, gridDim.x, params.total_tiles);
  for_each_tile(params, *smem.flags, recompute, [&](unsigned tile, unsigned index) {
    const int stages = TileKSlice<Config>(params, tile).stages;
    if (!recompute) return split_tile(std::false_type{}, tile, stages, index);
    producer.measure(tile, stages);
    producer.prefetch(tile, 1, tile + 1);
    split_tile(std::true_type{}, tile, stages, index);
  });
}

/// The producer of B: a load warp, if B is split already.
template <typename Config>
__device__ __forceinline__ void produce_b(const SkinnyMParams& params,
                                          const SkinnyMSmem<Config>& smem, bool recompute,
                                          typename Config::Pipeline& pipeline) {
  if constexpr (Config::Producer::SPLITS) {
    split_b(params, smem, recompute, pipeline);
  } else if (elect_one()) {
    load_by_tma<Config, B>(params, smem, recompute, pipeline);
  }
  __syncwarp();
}

/// The mma warps; `warp` counts them.
template <typename Config>
__device__ __forceinline__ void multiply_tiles(const SkinnyMParams& params,
                                               const SkinnyMSmem<Config>& smem, int warp,
                                               bool recompute,
                                               typename Config::Pipeline& pipeline) {
  const int column_group = warp % Config::COLUMN_GROUPS;
  const int first_row = warp / Config::COLUMN_GROUPS * Config::ROW_TILES * MMA_ROWS;
  for_each_tile(params, *smem.flags, recompute, [&](unsigned tile, unsigned index) {
    const TileKSlice<Config> slice(params, tile);
    const int64_t first_col =
        int64_t{tile - slice.index * params.tiles} * Config::TILE_N + column_group * GROUP_COLS;
    const SplitMetadata a = metadata_at(params.a_metadata, slice.batch, slice.k_slice);
    int row_scales[Config::ROW_TILES * 2];
    load_row_scales(a, first_row, params.rows, row_scales);
    TileMma<Config> mma;
    if constexpr (!Config::Producer::SPLITS) {
      const SplitMetadata b = metadata_at(params.b_metadata, slice.batch, slice.k_slice);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int col = static_cast<int>(first_col) + threadIdx.x % WARP / 4 + 8 * i;
        mma.packed_scales[i] = packed_scale_at(b, min(col, static_cast<int>(params.b.mn) - 1));
      }
    }
    mma.multiply(slice.stages, slice.k_blocks, smem, column_group, first_row,
                 static_cast<int>(first_col), pipeline);
    if (!recompute && smem.flags->has_tile(index)) return;
    const int64_t col = first_col + threadIdx.x % WARP / 4;
    write<Config>(mma, params, slice, first_row, {col, col + 8}, row_scales,
                  smem.flags->has_fallback);
  });
}

/// A block's tiles.
template <typename Config>
__device__ __forceinline__ void run(const SkinnyMParams& params) {
  prefetch_param(params);
  const SkinnyMSmem<Config> smem;
  if (threadIdx.x < sizeof(RecomputeFlags) / sizeof(uint32_t)) {
    reinterpret_cast<uint32_t*>(smem.flags)[threadIdx.x] = 0;
  }
  if (threadIdx.x == 0) {
    for (int i = 0; i < Config::STAGES; ++i) {
      smem.full[i].init(Config::Producer::ARRIVALS + Config::LOAD_THREADS);
      smem.empty[i].init(Config::MMA_THREADS);
    }
    if constexpr (Config::LOAD_A == LoadA::TMA) fence_barrier_init();
    if constexpr (!Config::Producer::SPLITS) prefetch_tensor_map(params.b_map);
  }
  __syncthreads();

  const int warp = threadIdx.x / WARP, mma_warp = warp - Config::Producer::THREADS / WARP;
  constexpr int MMA_WARPS = Config::MMA_THREADS / WARP;
  const bool is_producer_of_b = mma_warp < 0;
  const bool is_load_warp = Config::LOAD_WARPS == 1 ? mma_warp == MMA_WARPS : mma_warp >= MMA_WARPS;
  typename Config::Pipeline pipeline;
  // B needs nothing from the previous kernel.
  if (!is_producer_of_b) wait_on_dependent_grids();
  bool recompute = false;
  do {
    if (is_producer_of_b) {
      produce_b(params, smem, recompute, pipeline);
    } else if (is_load_warp) {
      load_a(params, smem, mma_warp - MMA_WARPS, recompute, pipeline);
    } else {
      multiply_tiles(params, smem, mma_warp, recompute, pipeline);
    }
    __syncthreads();
    const bool is_flagged = threadIdx.x < MAX_TILES / 32 && smem.flags->tiles[threadIdx.x];
    recompute = __syncthreads_or(is_flagged) && !recompute;
  } while (recompute);
  if (is_producer_of_b) wait_on_dependent_grids();
  if (!smem.flags->has_fallback) return;
  for_each_tile(params, *smem.flags, false,
                [&](unsigned tile, unsigned) { compute_fallback<Config>(params, tile); });
}

template <typename Config>
__global__ void __launch_bounds__(launch_bound(Config::TARGET_HAS_CODE, Config::THREADS),
                                  Config::MIN_BLOCKS_PER_SM)
    skinny_m_kernel(const __grid_constant__ SkinnyMParams params) {
  if constexpr (Config::TARGET_HAS_CODE) run<Config>(params);
}

/// Whether a tile takes no longer than the start and end of a block, so that a block should go
/// through several. Long tiles have a block each: an SM that is free starts the next one.
bool tiles_are_short(const SplitOperand& operand) {
  constexpr int64_t LONG_K = 16 * STAGE_K;
  return operand.k_slice_length < LONG_K;
}

template <typename Config>
void launch_config(const Problem& problem, const SplitOperand& a, const SplitOperand& b,
                   float* partials, const Device& device) {
  SkinnyMParams params = params_of(problem, a, b, Config::TILE_N, STAGE_K);
  if (Config::LOAD_A == LoadA::TMA) params.a_map = hi_lo_tensor_map(a, params.rows);
  if (!Config::Producer::SPLITS) params.b_map = hi_lo_tensor_map(b, Config::TILE_N);
  if (a.k_slices > 1) params.partials = partials;
  const int64_t total_tiles = params.total_tiles;
  const int64_t blocks =
      tiles_are_short(a) ? min_blocks(total_tiles, Config::MIN_BLOCKS_PER_SM, device) : total_tiles;
  // Reserve so much shared memory that an SM has no more blocks than it takes to have all resident:
  // where three fitted, some SMs had three and others one.
  const int64_t blocks_per_sm = ceil_div(blocks, device.sm_count);
  const int64_t smem_share = int64_t{Config::SM_SHARED_BYTES} / blocks_per_sm - RESERVED_SMEM_BYTES;
  const size_t smem_bytes = std::max<int64_t>(Config::SMEM_BYTES, smem_share);
  launch("fp16x3 skinny M", skinny_m_kernel<Config>, {blocks, {Config::THREADS}, smem_bytes, true},
         device, params);
}

}  // namespace

/// launch_skinny_m (skinny_m.h) for one layout of B.
using LaunchSkinnyM = void(const Problem&, const SplitOperand&, const SplitOperand&, float*,
                           const Device&);

/// Selects the policy.
template <typename BLayout, LoadA LOAD_A>
void launch_skinny_m_layout(const Problem& problem, const SplitOperand& a, const SplitOperand& b,
                            float* partials, const Device& device) {
  const auto launch = [&](auto config) {
    launch_config<decltype(config)>(problem, a, b, partials, device);
  };
  const auto blocks_of = [&](auto config) {
    return ceil_div(problem.N, decltype(config)::TILE_N) * inner_batch_count(problem);
  };
  // Whether all blocks are resident at once.
  const auto fits = [&](auto config) {
    return blocks_of(config) <= int64_t{decltype(config)::MIN_BLOCKS_PER_SM} * device.sm_count;
  };
  // Split-K and unaligned layouts are rare, and so are GPUs without TMA where fp16x3 is faster than
  // FMAs. They share the policies M16 and M64 or M64_WIDE. Aligned columns that are more than the
  // blocks which are resident at once are skinny_m_rs.cu's.
  constexpr bool IS_RARE = BLayout::SPLIT_K || LOAD_A == LoadA::CP_ASYNC;
  if constexpr (!IS_RARE) {
    if (problem.M <= 8) return launch(SkinnyMConfig<BLayout, M8>{});
  }
  if constexpr (!IS_RARE && std::is_same_v<BLayout, KMajor>) {
    // Take fewer loads in flight if only so all blocks are resident.
    using FewerLoads = SkinnyMConfig<BLayout, M16_FEWER_LOADS>;
    if (problem.M <= 16 && !fits(SkinnyMConfig<BLayout, M16>{}) && fits(FewerLoads{})) {
      return launch(FewerLoads{});
    }
  }
  if constexpr (std::is_same_v<BLayout, MnMajorUnaligned>) {
    // Of 155 such problems with few blocks the geometric mean is 0.91 of the time by two warps. By
    // aligned rows and by columns four warps and deeper rings gain nothing.
    using ConfigM16 = SkinnyMConfig<MnMajorFourWarps, M16_ALONE>;
    if (blocks_of(ConfigM16{}) * a.k_slices <= device.sm_count) {
      if (problem.M <= 16) return launch(ConfigM16{});
      if (problem.M <= 32) return launch(SkinnyMConfig<MnMajorFourWarps, M32_ALONE>{});
      return launch(SkinnyMConfig<MnMajorFourWarps, M64_ALONE>{});
    }
  }
  if (problem.M <= 16) return launch(SkinnyMConfig<BLayout, M16, LOAD_A>{});
  if constexpr (!IS_RARE && std::is_same_v<BLayout, KMajor>) {
    if (problem.M <= 32) return launch(SkinnyMConfig<BLayout, M32_FOUR_WARPS>{});
  }
  if constexpr (LOAD_A == LoadA::TMA && std::is_base_of_v<MnMajor, BLayout>) {
    if (problem.M <= 32) return launch(SkinnyMConfig<BLayout, M32_TWO_WARPS>{});
  }
  if constexpr (!IS_RARE && std::is_same_v<BLayout, MnMajor>) {
    // Half the columns per block if there still is at most one block per SM.
    using ConfigM64 = SkinnyMConfig<BLayout, M64>;
    if (blocks_of(ConfigM64{}) <= device.sm_count) return launch(ConfigM64{});
  }
  launch(SkinnyMConfig<BLayout, BLayout::IS_MN_MAJOR ? M64_WIDE : M64, LOAD_A>{});
}

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
