// out = A B for up to 64 rows of A and many columns of B, which TMA loads: on Hopper, where B is
// aligned. As skinny_m_kernel.h, it splits B while it multiplies, and the previous launch has split
// A. But here the warps that multiply split their columns themselves, in the registers from which
// wgmma takes them (the "rs" form), so hi and lo do not go through shared memory:
//
//   load warp     | wait empty[s] | TMA: float32 columns of B, hi and lo of A's rows -> stage s |
//   warpgroups      wait full[s] | columns -> registers, split | wgmma, promote | arrive empty[s]
//
// wgmma's 64 rows are columns of B, its n are rows of A. While the tensor cores multiply a stage,
// the warpgroup loads the next one and finds its scales. For up to 32 rows it splits that
// afterwards: with fragments of both in registers, its loop was twice as long, and no faster. For
// 64 rows it multiplies the k blocks of a stage one after the other, and splits each during the
// products of the one before: 0.88 of the time at 28,672 columns of 4096.
//
// A tile has 64 columns per warpgroup. A tile with a warp whose columns turn out to have been split
// by a wrong scale is computed again after the block's other tiles: its columns are read for their
// final scales, and once more to be split by them.
//
// In a stage a row of 128 bytes is 32 k of a column, or, if B is MN-major, 32 columns of one k. TMA
// swizzles it: vector v of row r is at position v ^ (r % 8). A lane loads 8 bytes, and half a warp
// reads 32 bytes each from four rows. These must be even rows, or odd ones, to be in different
// banks.
//
// The order of the additions is promotion.h's, so a row of out has the same bits as from the other
// kernels.
//
// What may be changed: the tiles and stages (RsConfig) do not change the results.
#include "device/pdl.h"
#include "device/prefetch_params.h"
#include "device/target.h"
#include "device/wgmma.h"
#include "gemm/batch.h"
#include "gemm/fp16x3/skinny_m.h"
#include "gemm/fp16x3/skinny_m_mma.h"
#include "gemm/fp16x3/skinny_m_rs_params.h"
#include "gemm/fp16x3/tensor_map.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {
namespace {

using namespace skinny_m;

/// One thread: loads the stages of all tiles, those of a tile that is computed again twice.
template <typename Config>
__device__ __forceinline__ void load(const SkinnyMParams& params, const RsSmem<Config>& smem,
                                     bool recompute, typename Config::Pipeline& pipeline) {
  const int stage_bytes =
      Config::B_BYTES + RS_K_BLOCKS * params.rows * static_cast<int>(K_BLOCK_BYTES);
  const auto load_b = [&](unsigned tile, int k_stage, int stage) {
    const auto batch = static_cast<int>(tile / params.tiles);
    const int col = static_cast<int>(tile - batch * params.tiles) * Config::TILE_N;
    const int z = params.b.batch_stride == 0 ? 0 : batch, k = k_stage * RS_STAGE_K;
    Barrier& full = smem.full[stage];
    full.arrive_and_expect_tx(stage_bytes);
    unsigned char* const to = smem.b(stage);
    if constexpr (Config::K_MAJOR) {
#pragma unroll
      for (int i = 0; i < RS_K_BLOCKS; ++i) {
        tma_load(to + i * Config::TILE_N * ROW_BYTES, params.b_map,
                 {k + i * split::K_BLOCK, col, z}, full);
      }
    } else {
      constexpr int BOX_COLS = ROW_BYTES / sizeof(float);
#pragma unroll
      for (int i = 0; i < Config::TILE_N / BOX_COLS; ++i) {
        tma_load(to + i * RS_STAGE_K * ROW_BYTES, params.b_map, {col + i * BOX_COLS, k, z}, full);
      }
    }
  };
  const auto load_a = [&](unsigned tile, int k_stage, int stage) {
    const auto batch = static_cast<int>(tile / params.tiles);
#pragma unroll
    for (int i = 0; i < RS_K_BLOCKS; ++i) {
      tma_load(smem.a(stage) + i * Config::A_K_BLOCK_BYTES, params.a_map,
               {2 * (k_stage * RS_STAGE_K + i * split::K_BLOCK), 0,
                params.a_metadata.batch_rows ? batch : 0},
               smem.full[stage]);
    }
  };
  // B needs nothing from the previous kernel, A does.
  const int early_stages = recompute ? 0 : min(Config::STAGES, params.stages);
  for (int stage = 0; stage < early_stages; ++stage) load_b(blockIdx.x, stage, stage);
  wait_on_dependent_grids();
  int first_stage = early_stages;
  for (int stage = 0; stage < early_stages; ++stage, pipeline.next()) {
    load_a(blockIdx.x, stage, stage);
  }
  for_each_tile(params, *smem.flags, recompute, [&](unsigned tile, unsigned) {
    for (int pass = 0; pass < (recompute ? 2 : 1); ++pass) {
      for (int k_stage = first_stage; k_stage < params.stages; ++k_stage, pipeline.next()) {
        smem.empty[pipeline.stage].wait(pipeline.parity ^ 1);
        load_b(tile, k_stage, pipeline.stage);
        load_a(tile, k_stage, pipeline.stage);
      }
      first_stage = 0;
    }
  });
}

/// The accumulators of a warpgroup's tile, for the lane's two columns and all rows: accumulator i
/// of row tile t is in column i / 2 and in row 8 t + 2 (lane % 4) + i % 2. The arrays are variables
/// of their own: members that are used in so many places nvcc kept in memory.
template <typename Config>
struct RsAccumulators {
  static constexpr int COUNT = Config::ACCUMS, K_BLOCKS = Config::K_BLOCKS;
  float (&k_block_accum)[K_BLOCKS][COUNT];
  float (&cross_accum)[COUNT], (&accum)[COUNT], (&totals)[COUNT];
  int packed_scales[LANE_COLS];

  /// Starts the products of K_BLOCKS k blocks. `a` is the low word of A's descriptor.
  __device__ __forceinline__ void issue(HiLoFragments<K_BLOCKS>& b, uint32_t a) {
    constexpr uint32_t LO = descriptor_units(K_BLOCK_BYTES / 2);
    constexpr int K16 = split::K_BLOCK / 16;
    fence_operands(b);
    warpgroup_arrive();
#pragma unroll
    for (int i = 0; i < K_BLOCKS * K16; ++i) {
      const uint32_t block = a + i / K16 * descriptor_units(Config::A_K_BLOCK_BYTES);
      const uint64_t a_hi = tile_descriptor(block + i % K16 * K16_STEP<Major::K>);
      const uint64_t a_lo = tile_descriptor(block + i % K16 * K16_STEP<Major::K> + LO);
      wgmma_rs<half, Config::TILE_M>(k_block_accum[i / K16], b.hi[i], a_hi, i % K16 > 0);
      wgmma_rs<half, Config::TILE_M>(cross_accum, b.lo[i], a_hi, 1);
      wgmma_rs<half, Config::TILE_M>(cross_accum, b.hi[i], a_lo, 1);
    }
    warpgroup_commit_batch();
  }

  /// Waits for the products with `b`, and adds them.
  __device__ __forceinline__ void finish(HiLoFragments<K_BLOCKS>& b) {
    warpgroup_wait<0>();
    fence_operands(b);
#pragma unroll
    for (int k_block = 0; k_block < K_BLOCKS; ++k_block) {
#pragma unroll
      for (int i = 0; i < COUNT; ++i) accum[i] += k_block_accum[k_block][i];
    }
  }

  __device__ __forceinline__ void rescale(const float (&factors)[LANE_COLS]) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      const float factor = factors[i / 2 % 2];
      cross_accum[i] *= factor;
      accum[i] *= factor;
      totals[i] *= factor;
    }
  }

  __device__ __forceinline__ void promote_group(int group, const int (&cols)[LANE_COLS]) {
#pragma unroll
    for (int c = 0; c < LANE_COLS; ++c) {
      if (promotion_group(cols[c]) != group) continue;
#pragma unroll
      for (int i = 0; i < COUNT; ++i) {
        if (i / 2 % 2 == c) promote(totals[i], accum[i]);
      }
    }
  }

  __device__ __forceinline__ float value(int row_tile, int i) const {
    const int j = row_tile * 4 + i;
    return combine(totals[j], accum[j], cross_accum[j]);
  }

 private:
  /// Registers that the tensor cores read or write.
  __device__ __forceinline__ void fence_operands(HiLoFragments<K_BLOCKS>& b) {
#pragma unroll
    for (int i = 0; i < K_BLOCKS * (split::K_BLOCK / 16); ++i) {
      warpgroup_fence_operand(b.hi[i]);
      warpgroup_fence_operand(b.lo[i]);
    }
#pragma unroll
    for (auto& each : k_block_accum) warpgroup_fence_operand(each);
    warpgroup_fence_operand(cross_accum);
  }
};

/// The warpgroups: multiply the tiles.
template <typename Config>
__device__ __forceinline__ void multiply_tiles(const SkinnyMParams& params,
                                               const RsSmem<Config>& smem, bool recompute,
                                               typename Config::Pipeline& pipeline) {
  const LaneElementsInStage<Config> lane;
  const int warp = threadIdx.x / WARP;
  const bool is_first_lane = threadIdx.x % WARP == 0;
  const uint32_t a_desc0 = warp_uniform(descriptor_at(shared_address(smem.a(0))));
  for_each_tile(params, *smem.flags, recompute, [&](unsigned tile, unsigned index) {
    const TileKSlice<Config> slice(params, tile);
    const int first_col = static_cast<int>(tile - slice.index * params.tiles) * Config::TILE_N;
    const int cols[] = {first_col + lane.cols[0], first_col + lane.cols[1]};
    const SplitOperand& b = params.b;
    FragmentSplit<RS_K_BLOCKS> split(b, b.src + slice.batch * b.batch_stride, slice.batch * b.mn,
                                     cols);
    LaneElements<RS_K_BLOCKS> elements;
    int previous_stage = 0;
    if (recompute) {
      for (int k_stage = 0; k_stage < params.stages; ++k_stage, pipeline.next()) {
        smem.full[pipeline.stage].wait(pipeline.parity);
        lane.load(smem.b(pipeline.stage), elements);
        split.measure(elements);
        // A stage later, because an arrival does not wait for loads under way.
        __syncwarp();
        if (is_first_lane && k_stage > 0) smem.empty[previous_stage].arrive();
        previous_stage = pipeline.stage;
      }
      split.use_measured_scales();
      __syncwarp();
      if (is_first_lane) smem.empty[previous_stage].arrive();
    }

    constexpr int STEPS = Config::STEPS, K_BLOCKS = Config::K_BLOCKS, ACCUMS = Config::ACCUMS;
    float k_block_accum[K_BLOCKS][ACCUMS] = {}, cross_accum[ACCUMS] = {}, accum[ACCUMS] = {};
    float totals[ACCUMS] = {};
    RsAccumulators<Config> mma{k_block_accum, cross_accum, accum, totals};
    HiLoFragments<K_BLOCKS> fragments[STEPS];
    // Before the first stage it adds zeros: without a condition, nvcc sees that no wgmma runs.
    const auto finish_stage = [&](int k_stage) {
      mma.finish(fragments[STEPS - 1]);
      mma.promote_group((k_stage + PROMOTION_GROUPS) % PROMOTION_GROUPS, cols);
      if (is_first_lane && k_stage >= 0) smem.empty[previous_stage].arrive();
    };
    int k_stage = 0;
    do {  // there is a stage: ptxas serializes the wgmmas if it must assume that there is none
      smem.full[pipeline.stage].wait(pipeline.parity);
      const uint32_t a_desc =
          warp_uniform(a_desc0 + pipeline.stage * descriptor_units(Config::STAGE_BYTES));
      lane.load(smem.b(pipeline.stage), elements);
      float factors[LANE_COLS];
      const bool rescales = split.update(elements, k_stage * RS_STAGE_K, factors);
      if constexpr (STEPS > 1) split.split(elements, 0, fragments[0]);
      finish_stage(k_stage - 1);
      if (rescales) mma.rescale(factors);
      if constexpr (STEPS == 1) split.split(elements, 0, fragments[0]);
      mma.issue(fragments[0], a_desc);
      if constexpr (STEPS == 2) {
        split.split(elements, 1, fragments[1]);
        mma.finish(fragments[0]);
        mma.issue(fragments[1], a_desc + descriptor_units(Config::A_K_BLOCK_BYTES));
      }
      previous_stage = pipeline.stage;
      pipeline.next();
    } while (++k_stage < params.stages);
    finish_stage(params.stages - 1);

    if (!split.finish(mma.packed_scales)) {
      if (is_first_lane) {
        atomicOr(smem.flags->warps + index / 4, 1u << (index % 4 * 8 + warp));
      }
      return;
    }
    if (recompute && !(smem.flags->warps_of(index) >> warp & 1)) return;
    int row_scales[Config::ROW_TILES * 2];
    load_row_scales(metadata_at(params.a_metadata, slice.batch), 0, params.rows, row_scales);
    write<Config>(mma, params, slice, 0, {cols[0], cols[1]}, row_scales, smem.flags->has_fallback);
  });
}

/// A block's tiles.
template <typename Config>
__device__ __forceinline__ void run(const SkinnyMParams& params) {
  prefetch_param(params);
  const RsSmem<Config> smem;
  for (unsigned i = threadIdx.x; i < sizeof(TileFlags) / sizeof(uint32_t); i += Config::THREADS) {
    reinterpret_cast<uint32_t*>(smem.flags)[i] = 0;
  }
  if (threadIdx.x == 0) {
    for (int i = 0; i < Config::STAGES; ++i) {
      smem.full[i].init(1);
      smem.empty[i].init(Config::CONSUMER_WARPS);
    }
    fence_barrier_init();
    prefetch_tensor_map(params.a_map);
    prefetch_tensor_map(params.b_map);
  }
  __syncthreads();

  typename Config::Pipeline pipeline;
  if (threadIdx.x >= Config::CONSUMER_THREADS) {
    warpgroup_reg_dealloc<Config::LOAD_REGISTERS>();
    if (threadIdx.x / WARP > Config::CONSUMER_WARPS) return;
    bool recompute = false;
    do {
      if (elect_one()) load(params, smem, recompute, pipeline);
      __syncwarp();
      named_barrier_sync<Config::CONSUMER_THREADS + WARP>();
      recompute = !recompute && smem.flags->is_any_flagged();
    } while (recompute);
  } else {
    warpgroup_reg_alloc<Config::REGISTERS>();
    wait_on_dependent_grids();
    bool recompute = false;
    do {
      multiply_tiles(params, smem, recompute, pipeline);
      named_barrier_sync<Config::CONSUMER_THREADS + WARP>();
      recompute = !recompute && smem.flags->is_any_flagged();
    } while (recompute);
    if (!smem.flags->has_fallback) return;
    for_each_tile(params, *smem.flags, false,
                  [&](unsigned tile, unsigned) { compute_fallback<Config>(params, tile); });
  }
}

template <typename Config>
__global__ void __launch_bounds__(launch_bound(TARGET_HAS_SM90A, Config::THREADS),
                                  Config::BLOCKS_PER_SM)
    skinny_m_rs_kernel(const __grid_constant__ SkinnyMParams params) {
  if constexpr (TARGET_HAS_SM90A) run<Config>(params);
}

template <typename Config>
void launch_config(const Problem& problem, const SplitOperand& a, const SplitOperand& b,
                   const Device& device) {
  const int64_t b_matrices = b.batch_stride == 0 ? 1 : inner_batch_count(problem);
  constexpr int BOX = ROW_BYTES / sizeof(float);
  const sm90::TensorShape b_shape =
      Config::K_MAJOR
          ? sm90::TensorShape{DType::f32, b.src, b.k, b.mn, b_matrices, b.mn_stride, b.batch_stride}
          : sm90::TensorShape{DType::f32, b.src, b.mn, b.k, b_matrices, b.k_stride, b.batch_stride};
  SkinnyMParams params = params_of(problem, a, b, Config::TILE_N, RS_STAGE_K);
  params.a_map = hi_lo_tensor_map(a, params.rows);
  params.b_map = sm90::make_tensor_map(b_shape, BOX, Config::K_MAJOR ? Config::TILE_N : RS_STAGE_K);
  const int64_t blocks = min_blocks(params.total_tiles, Config::BLOCKS_PER_SM, device);
  // Where there is no more than a block for each SM, none has a second: with a part of the shared
  // memory 8192 columns of 28,672 took 1.4 times as long.
  const size_t smem_bytes = blocks > device.sm_count
                                ? Config::SMEM_BYTES
                                : size_t{sm90::SHARED_BYTES} - size_t{RESERVED_SMEM_BYTES};
  launch("fp16x3 skinny M by wgmma", skinny_m_rs_kernel<Config>,
         {blocks, {Config::THREADS}, smem_bytes, true}, device, params);
}

template <bool K_MAJOR>
void launch_layout(const Problem& problem, const SplitOperand& a, const SplitOperand& b,
                   const Device& device) {
  if (problem.M <= 16) return launch_config<RsConfig<K_MAJOR, 16>>(problem, a, b, device);
  if (problem.M <= 32) return launch_config<RsConfig<K_MAJOR, 32>>(problem, a, b, device);
  launch_config<RsConfig<K_MAJOR, 64>>(problem, a, b, device);
}

/// Whether TMA can load B: its rows are aligned and do not overlap.
bool can_load_by_tma(const SplitOperand& b) {
  if (b.batch_stride < 0) return false;
  return split::can_vectorize_along_k(b) ? b.mn_stride >= b.k
                                         : split::can_vectorize_along_mn(b) && b.k_stride >= b.mn;
}

}  // namespace

// The limits are those of 490 random problems on an H200, and of 190 with at most as many tiles as
// SMs. An SM has 128 columns at a time. So with fewer tiles than SMs the kernel is the faster one
// where the others split slowly, an MN-major B above all, and with more tiles, where a K-major B
// has a last wave that leaves not too many SMs idle.
bool is_fastest_by_rs(const Problem& problem, const SplitOperand& b, const Device& device) {
  if (b.k_slices > 1 || !can_load_by_tma(b)) return false;
  const bool is_k_major = split::can_vectorize_along_k(b);
  const int64_t tiles = ceil_div(problem.N, WARPGROUP_COLS) * inner_batch_count(problem);
  const int64_t tiles_per_wave = 2 * device.sm_count;
  if (tiles <= tiles_per_wave) {
    int64_t eighths_of_sms = problem.M <= 8 ? 5 : 4;
    if (is_k_major) {
      eighths_of_sms = problem.M <= 8 || problem.M > 32 ? 8 : problem.M <= 16 ? 7 : 5;
    }
    return tiles * 8 >= device.sm_count * eighths_of_sms;
  }
  const int64_t room = round_up(tiles, tiles_per_wave);
  return !is_k_major || tiles * 100 >= room * (problem.M <= 16 ? 75 : 55);
}

void launch_skinny_m_rs(const Problem& problem, const SplitOperand& a, const SplitOperand& b,
                        const Device& device) {
  if (split::can_vectorize_along_k(b)) return launch_layout<true>(problem, a, b, device);
  launch_layout<false>(problem, a, b, device);
}

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
