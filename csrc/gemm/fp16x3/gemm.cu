// out = A B for two split operands in memory: float32 by three fp16 products on Hopper's tensor
// cores (Ootomo and Yokota, "Recovering single precision accuracy from Tensor Cores while
// surpassing the FP32 theoretical peak performance", IJHPCA 36, 2022; CUTLASS's 3xTF32 is the same
// scheme for TF32. The order of the additions is our own.)
//
//   x = (hi + lo / 2^12) 2^e      A B = (Ahi Bhi + (Ahi Blo + Alo Bhi) / 2^12) 2^(eA + eB)
//
// lo·lo is below float32's last bit and is left out. The tensor cores truncate what they add, which
// biases a long chain of additions. So only the 32 hi·hi products of one k block are chained there;
// the CUDA cores then add the chain to their accumulators, with rounding. Every 512 of K the
// accumulators are promoted to totals in shared memory, and the rounding error stays in the
// accumulators (promotion.h). The cross products hi·lo + lo·hi are 2^-12 smaller, so their chain
// may be as long as K. The error of these additions does not grow with K; docs/accuracy.md bounds
// it.
//
// Warp roles: a persistent block computes 128 x TILE_N tiles of out. In a cluster of two, the
// blocks' tiles lie one below the other, and each block loads half of B's tile for both.
//
//   producer     one thread of the last warpgroup: TMA loads of hi and lo of A and B
//   consumers    two warpgroups of 64 rows each: wgmma, accumulation, epilogue, FALLBACK rows
//
// Pipeline: a stage holds one k block (32 of K) of A and of B, hi and lo in rows of 128 bytes.
//
//   producer   | wait empty[s] | TMA A, B -> stage s, full[s] | wait empty[s+1] | ...
//                                      |
//   consumers    wait full[s] ---------+
//     tensor cores | hi·hi (k) | hi·lo + lo·hi (k) | hi·hi (k+1) | hi·lo + lo·hi (k+1) | ...
//     CUDA cores               | accum += hi·hi (k), promote     | accum += hi·hi (k+1) ...
//                                                  +-> arrive empty[stage of k]
//
// With split-K (split_k.h) each k slice is computed as if it were all of K, and its accumulators go
// to memory. FALLBACK rows and columns are computed at the end, by FMAs (fp32_fallback.h).
//
// A long product takes its tiles from a counter (gemm/dynamic_scheduler.h): beside other kernels
// the blocks' shares differ.
//
// What may be changed: STAGES, the raster's SWIZZLE_SIZE (gemm_tiles.h), the tile widths and
// COSTS do not change the results. TILE_K and the order of the wgmmas and additions do:
// they must agree with promotion.h, gemm_sm80.cu, skinny_m_mma.h and bench/fp16x3_model.py. Every
// element is added in this one order, whatever M, N and the tile are.
#include <algorithm>

#include "device/cluster.h"
#include "device/dsmem.h"
#include "device/pdl.h"
#include "device/prefetch_params.h"
#include "device/target.h"
#include "device/wgmma.h"
#include "gemm/fp16x3/gemm.h"
#include "gemm/fp16x3/gemm_params.h"
#include "gemm/fp16x3/gemm_tiles.h"
#include "gemm/fp16x3/tensor_map.h"
#include "gemm/tile_counter.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {
namespace {

template <typename Config>
struct Fp16x3Gemm {
  static constexpr int TILE_N = Config::TILE_N, ACCUMS = Config::ACCUMS;
  static constexpr int CLUSTER = Config::CLUSTER;

  const Fp16x3Params& params;
  GemmSmem<Config> smem;
  uint32_t rank = CLUSTER > 1 ? block_rank_in_cluster() : 0;

  /// This block's tile of a cluster tile.
  __device__ __forceinline__ WorkTileInfo own_tile(WorkTileInfo tile) const {
    tile.row = tile.row * CLUSTER + static_cast<int>(rank);
    return tile;
  }

  /// Loads `rows` rows of A.
  __device__ __forceinline__ void load_a(int stage, int k_block, const WorkTileInfo& tile,
                                         int slice, int rows, Barrier& full) const {
    const Coordinates from{2 * TILE_K * k_block, tile.row * TILE_M, slice};
    if (rows == TILE_M) {
      tma_load(smem.a(stage), params.a_map, from, full);
    } else {
      tma_load(smem.a(stage), params.a_tail_map, from, full);
    }
  }

  /// Loads `cols` columns of B, or this block's part of a tile for all blocks of the cluster.
  __device__ __forceinline__ void load_b(int stage, int k_block, const WorkTileInfo& tile,
                                         int slice, int cols, Barrier& full) const {
    constexpr int COLS = TILE_N / CLUSTER;
    const int first = static_cast<int>(rank) * COLS;
    unsigned char* const to = smem.b(stage) + first * ROW_BYTES;
    const Coordinates from{2 * TILE_K * k_block, tile.col * TILE_N + first, slice};
    if constexpr (CLUSTER > 1) {
      tma_load(to, params.b_map, from, full, (1 << CLUSTER) - 1);
    } else if (cols == TILE_N) {
      tma_load(to, params.b_map, from, full);
    } else {
      tma_load(to, params.b_tail_map, from, full);
    }
  }

  /// The producer, one thread. Rows and columns beyond A and B are not loaded, because TMA takes
  /// longer to fill them with zeros than to load others: 129 x 2048 x 4096 took 104 us instead of
  /// 60. A stage keeps old values there, whose products are not stored.
  __device__ __forceinline__ void load_tiles() const {
    Pipeline pipeline;
    ProducerWorkTileSequence<STAGES, CLUSTER> sequence(params.scheduler, smem.slots, rank);
    sequence.begin();
    for_each_work_tile_of(sequence, [&](const WorkTileInfo& work, uint32_t) {
      const WorkTileInfo tile = own_tile(work);
      const int rows = min(static_cast<int>(params.epilogue.out.rows) - tile.row * TILE_M, TILE_M);
      const int cols_left = static_cast<int>(params.epilogue.out.cols) - tile.col * TILE_N;
      const int cols = CLUSTER > 1 ? TILE_N : min(cols_left, TILE_N);
      const int first_slice = tile.batch * static_cast<int>(params.scheduler.split_k_slices);
      const int a_slice = tile.k_slice + (params.a.batch_rows ? first_slice : 0);
      const int b_slice = tile.k_slice + (params.b.batch_rows ? first_slice : 0);
#pragma unroll 1
      for (int k_block = 0; k_block < tile.k_tiles; ++k_block, pipeline.next()) {
        smem.empty[pipeline.stage].wait(pipeline.parity ^ 1);
        Barrier& full = smem.full[pipeline.stage];
        full.arrive_and_expect_tx((rows + cols) * ROW_BYTES);
        load_a(pipeline.stage, k_block, tile, a_slice, rows, full);
        load_b(pipeline.stage, k_block, tile, b_slice, cols, full);
      }
    });
  }

  /// Called by each consumer warp, for all blocks that load the stage.
  __device__ __forceinline__ void release(int stage) const {
    const int lane = threadIdx.x % WARP;
    if constexpr (CLUSTER > 1) {
      if (lane < CLUSTER) smem.empty[stage].arrive_in(lane);
    } else {
      if (lane == 0) smem.empty[stage].arrive();
    }
  }

  /// A consumer warpgroup. Returns whether it found rows or columns that are FALLBACK.
  __device__ __forceinline__ bool multiply() const {
    bool has_fallback = false;
    const int warpgroup = threadIdx.x / WARPGROUP;
    const uint32_t a0 =
        warp_uniform(descriptor_at(shared_address(smem.a(0)) + warpgroup * PANEL_BYTES));
    const uint32_t b0 = warp_uniform(descriptor_at(shared_address(smem.b(0))));
    constexpr uint32_t K16 = K16_STEP<Major::K>, LO = descriptor_units(TILE_K * HALF_BYTES);
    const auto mma = [](float (&d)[ACCUMS], uint32_t a, uint32_t b, bool accumulate) {
      wgmma<half, Major::K, Major::K, TILE_N>(d, tile_descriptor(a), tile_descriptor(b),
                                              accumulate);
    };
    // The epilogue uses the same memory.
    float* const warp_totals = smem.totals + threadIdx.x / WARP * (ACCUMS * WARP);
    float* const totals = warp_totals + threadIdx.x % WARP;
    Pipeline pipeline;
    const WorkTileSequence<STAGES, CLUSTER> sequence(params.scheduler, smem.slots);
    for_each_work_tile_of(sequence, [&](const WorkTileInfo& work, uint32_t work_tile) {
      const WorkTileInfo tile = own_tile(work);
      float k_block_accum[ACCUMS], cross_accum[ACCUMS], accum[ACCUMS] = {};
      int previous_stage = -1;
      constexpr int INTERVAL = PROMOTION_INTERVAL;
      for (int first = 0; first < tile.k_tiles; first += INTERVAL * PROMOTION_GROUPS) {
#pragma unroll
        for (int group = 0; group < PROMOTION_GROUPS; ++group) {
          const int begin = first + group * INTERVAL;
          if (begin >= tile.k_tiles) break;
          const int end = min(begin + INTERVAL, tile.k_tiles);
#pragma unroll 1
          for (int k_block = begin; k_block < end; ++k_block) {
            const uint32_t stage_offset =
                warp_uniform(pipeline.stage * descriptor_units(Config::STAGE_BYTES));
            const uint32_t a = a0 + stage_offset, b = b0 + stage_offset;
            smem.full[pipeline.stage].wait(pipeline.parity);
            warpgroup_arrive();
            mma(k_block_accum, a, b, false);
            mma(k_block_accum, a + K16, b + K16, true);
            warpgroup_commit_batch();
            mma(cross_accum, a, b + LO, k_block > 0);
            mma(cross_accum, a + LO, b, true);
            mma(cross_accum, a + K16, b + K16 + LO, true);
            mma(cross_accum, a + K16 + LO, b + K16, true);
            warpgroup_commit_batch();
            // One batch may stay in flight: now the hi·hi products of this k block are complete,
            // and so are the cross products of the previous one.
            warpgroup_wait<1>();
            if (previous_stage >= 0) release(previous_stage);
            previous_stage = pipeline.stage;
            pipeline.next();
            warpgroup_fence_operand(k_block_accum);
#pragma unroll
            for (int i = 0; i < ACCUMS; ++i) accum[i] += k_block_accum[i];
          }
          promote_group(accum, totals, group, first > 0);
        }
      }
      const auto epilogue = split_epilogue<TILE_N, /*CALLS_ACTIVATIONS=*/true>(
          params, tile, tile.row * TILE_M + static_cast<int>(threadIdx.x) / WARP * 16,
          tile.col * TILE_N);
      warpgroup_wait<0>();
      release(previous_stage);
      warpgroup_fence_operand(cross_accum);
#pragma unroll
      for (int i = 0; i < ACCUMS; ++i) {
        accum[i] = combine_accum(i, totals, accum[i], cross_accum[i], tile.k_tiles);
      }
      if (epilogue.write(accum, warp_totals)) {
        has_fallback = true;
        if (params.scheduler.counter && threadIdx.x % WARP == 0) {
          atomicOr(&smem.fallback_tiles[work_tile / 32], 1u << work_tile % 32);
        }
      }
    });
    return has_fallback;
  }

  /// Called by all consumers when they have finished all their tiles.
  __device__ __forceinline__ void compute_fallbacks() const {
    const bool is_dynamic = params.scheduler.counter != nullptr;
    const uint32_t step = is_dynamic ? 1 : gridDim.x / CLUSTER;
#pragma unroll 1
    for (uint32_t i = is_dynamic ? 0 : blockIdx.x / CLUSTER; i < params.scheduler.work_tiles;
         i += step) {
      if (is_dynamic && (smem.fallback_tiles[i / 32] >> i % 32 & 1) == 0) continue;
      compute_fallback(params, own_tile(work_tile_at(params.scheduler, i)), TILE_N, smem.stages);
    }
  }
};

template <int TILE_N, int CLUSTER>
__global__ void __launch_bounds__(launch_bound(TARGET_HAS_SM90A, THREADS), 1)
    fp16x3_gemm_kernel(const __grid_constant__ Fp16x3Params params) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || !defined(__CUDACC__)
  prefetch_param(params);
  const Fp16x3Gemm<TileConfig<TILE_N, CLUSTER>> gemm{params};
  if (threadIdx.x == 0) {
    prefetch_tensor_map(params.a_map);
    prefetch_tensor_map(params.b_map);
    for (int i = 0; i < STAGES; ++i) {
      gemm.smem.full[i].init(1);
      gemm.smem.empty[i].init(CLUSTER * CONSUMERS * 4);
    }
    for (int i = 0; i < work_tile_slots(STAGES); ++i) gemm.smem.slots[i].full.init(1);
    fence_barrier_init();
  }
  if (params.scheduler.counter) {
    for (int i = threadIdx.x; i < FALLBACK_WORDS; i += THREADS) gemm.smem.fallback_tiles[i] = 0;
  }
  wait_on_dependent_grids();
  if constexpr (CLUSTER > 1) {
    cluster_sync();
  } else {
    __syncthreads();
  }
  if (threadIdx.x >= CONSUMER_THREADS) {
    warpgroup_reg_dealloc<24>();
    if (threadIdx.x / WARP == CONSUMER_THREADS / WARP && elect_one()) gemm.load_tiles();
  } else {
    warpgroup_reg_alloc<240>();
    const bool has_fallback = gemm.multiply();
    // A block's barriers must exist until the other blocks have arrived on them.
    if constexpr (CLUSTER > 1) cluster_sync();
    // The barrier is among the consumers, since the other threads exit when the producer is done.
    if (__syncthreads_or(has_fallback)) gemm.compute_fallbacks();
  }
#endif
}

/// `expected_ns`: of the tensor cores.
template <int TILE_N, int CLUSTER = 1>
void launch_tile_n(const Problem& problem, const SplitOperand& a, const SplitOperand& b,
                   float* partials, double expected_ns, const Device& device) {
  const auto tail_map = [](const SplitOperand& operand, int64_t size, int tile) {
    const auto tail = static_cast<int>(size % tile);
    return tail > 0 ? hi_lo_tensor_map(operand, tail) : CUtensorMap{};
  };
  Fp16x3Params params{
      .problem = problem,
      .a_map = hi_lo_tensor_map(a, TILE_M),
      .b_map = hi_lo_tensor_map(b, TILE_N / CLUSTER),
      .a_tail_map = tail_map(a, problem.M, TILE_M),
      .b_tail_map = tail_map(b, problem.N, TILE_N),
      .scheduler = make_scheduler(problem, a, CLUSTER * TILE_M, TILE_N),
      .epilogue = epilogue_of<float>(problem),
      .strides = batch_strides(problem),
      .a = SplitMetadata(a),
      .b = SplitMetadata(b),
      .k_slice_length = a.k_slice_length,
      .partials = a.k_slices > 1 ? partials : nullptr,
  };
  const int64_t tiles = params.scheduler.work_tiles;
  const int64_t clusters = std::min<int64_t>(tiles, device.sm_count / CLUSTER);
  if (tiles > clusters && tiles <= MAX_DYNAMIC_TILES &&
      (device.host || expected_ns >= 1000 * MIN_DYNAMIC_MICROSECONDS)) {
    params.scheduler.counter = tile_counter(device);
  }
  launch("fp16x3", fp16x3_gemm_kernel<TILE_N, CLUSTER>,
         {clusters * CLUSTER, {THREADS}, TileConfig<TILE_N, CLUSTER>::SMEM_BYTES, true, CLUSTER},
         device, params);
}

/// Whether pairs of blocks share tiles of B. The product alone, on an H100: 4096^3 632 -> 613 us,
/// 8192 x 8192 x 4096 2498 -> 2420, 512 x 4096 x 4096 87 -> 85. The launch of clusters takes 1.2 us
/// more.
bool takes_clusters(const Problem& problem, double expected_ns, const Device& device) {
  constexpr double MIN_NS = 50e3;
  return ceil_div(problem.M, TILE_M) % 2 == 0 && device.sm_count >= 2 &&
         (device.host || expected_ns >= MIN_NS);
}

// The tensor cores take 768, 384 and 192 cycles. The costs of the narrow tiles are measured: they
// wait for one instruction after the other.
constexpr TileCost COSTS[] = {
    {.tile_n = 128, .cycles = 768, .smem_bytes = TileConfig<128>::SMEM_BYTES},
    {.tile_n = 64, .cycles = 440, .smem_bytes = TileConfig<64>::SMEM_BYTES},
    {.tile_n = 32, .cycles = 300, .smem_bytes = TileConfig<32>::SMEM_BYTES},
};

}  // namespace

void launch_gemm(const Problem& problem, const split::SplitOperand& a, const split::SplitOperand& b,
                 float* partials, const Device& device) {
  constexpr double CYCLES_PER_NS = 1.755;
  const TileChoice choice = choose_tile(COSTS, problem, a.k_slices, device);
  const double expected_ns =
      static_cast<double>(choice.cycles * ceil_div(a.k_slice_length, TILE_K)) / CYCLES_PER_NS;
  switch (choice.tile_n) {
    case 32:
      return launch_tile_n<32>(problem, a, b, partials, expected_ns, device);
    case 64:
      return launch_tile_n<64>(problem, a, b, partials, expected_ns, device);
    default:
      if (takes_clusters(problem, expected_ns, device)) {
        return launch_tile_n<128, 2>(problem, a, b, partials, expected_ns, device);
      }
      return launch_tile_n<128>(problem, a, b, partials, expected_ns, device);
  }
}

const void* gemm_function() { return reinterpret_cast<const void*>(fp16x3_gemm_kernel<128, 1>); }

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
