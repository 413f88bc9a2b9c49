// The configurations of skinny_m_kernel.h, its shared memory, and the tiles of columns that a block
// goes through.
#pragma once

#include <algorithm>
#include <type_traits>

#include "device/target.h"
#include "gemm/batch.h"
#include "gemm/epilogue_params.h"
#include "gemm/fp16x3/hi_lo_producer.h"
#include "gemm/fp16x3/promotion.h"
#include "gemm/fp16x3/split_metadata.h"
#include "gemm/fp16x3/split_producer.h"
#include "gemm/sm90/pipeline.h"

namespace smem::gemm::fp16x3::skinny_m::inline SMEM_BUILD {

/// How hi and lo of A's rows come into shared memory.
enum class LoadA {
  TMA,      ///< by one thread, on Hopper
  CP_ASYNC  ///< by as many warps as multiply a column group, on GPUs since sm_80
};

constexpr int MMA_ROWS = 8;                    ///< rows of A per instruction, its n
constexpr int64_t RESERVED_SMEM_BYTES = 1024;  ///< per block, by the driver
constexpr int MAX_TILES = 1024;                ///< per block
constexpr int SM80_SHARED_BYTES = 163 * 1024;  ///< per block, at most
static_assert(STAGE_K_BLOCKS % PROMOTION_INTERVAL == 0, "a stage ends with a promotion");

struct SkinnyMParams {
  CUtensorMap a_map;  ///< with LoadA::TMA
  split::SplitOperand b;
  SplitMetadata a_metadata, b_metadata;
  Epilogue<float> epilogue;  ///< of the first matrix of the batch
  BatchStrides strides;
  float* partials;       ///< of split_k.h, if there are several k slices
  unsigned k_slices;     ///< per matrix of the batch
  unsigned tiles;        ///< tiles of columns per k slice
  unsigned total_tiles;  ///< over all k slices and matrices
  int rows;              ///< M
  int stages, k_blocks;  ///< along K, if there is one k slice
  HiLoRows a_rows;       ///< with LoadA::CP_ASYNC
  CUtensorMap b_map;     ///< of hi and lo with HiLoLayout, of float32 columns in skinny_m_rs.cu
};

/// A launch's parameters but for the tensor maps and partials, by tiles of tile_n columns and
/// stages of stage_k.
inline SkinnyMParams params_of(const Problem& problem, const split::SplitOperand& a,
                               const split::SplitOperand& b, int64_t tile_n, int64_t stage_k) {
  const int64_t tiles = ceil_div(problem.N, tile_n);
  return {
      .a_map = {},
      .b = b,
      .a_metadata = SplitMetadata(a),
      .b_metadata = SplitMetadata(b),
      .epilogue = epilogue_of<float>(problem),
      .strides = batch_strides(problem),
      .partials = nullptr,
      .k_slices = static_cast<unsigned>(a.k_slices),
      .tiles = static_cast<unsigned>(tiles),
      .total_tiles = static_cast<unsigned>(tiles * a.k_slices * inner_batch_count(problem)),
      .rows = static_cast<int>(problem.M),
      .stages = static_cast<int>(ceil_div(problem.K, stage_k)),
      .k_blocks = static_cast<int>(ceil_div(problem.K, split::K_BLOCK)),
      .a_rows = HiLoRows(a),
      .b_map = {},
  };
}

/// The fewest blocks that compute so many tiles without leaving room on an SM.
inline int64_t min_blocks(int64_t total_tiles, int blocks_per_sm, const Device& device) {
  const int64_t resident_blocks = int64_t{blocks_per_sm} * device.sm_count;
  return std::max(std::min(total_tiles, resident_blocks),
                  ceil_div(total_tiles, int64_t{MAX_TILES}));
}

/// What a block's threads record until the block has gone through all its tiles.
struct RecomputeFlags {
  uint32_t tiles[MAX_TILES / 32];  ///< a bit per tile that must be split again with final scales
  uint32_t has_fallback;           ///< a row or column is FALLBACK

  __device__ __forceinline__ bool has_tile(unsigned index) const {
    return tiles[index / 32] >> index % 32 & 1;
  }
};

/// The shape of a tile and its pipeline.
struct SkinnyMPolicy {
  int column_groups = 1;  ///< groups of GROUP_COLS columns per tile
  int row_warps;          ///< warps per column group that multiply
  int row_tiles;          ///< per such warp, of MMA_ROWS rows of A
  int smem_stages = 2;    ///< of split columns and of A's rows
  int load_stages = 0;    ///< of float32 columns in flight from memory, if B is not split yet
  bool is_alone = false;  ///< an SM has one block
};

// Named by the most rows of A that they take. FEWER_LOADS uses less shared memory, so one more
// block fits on an SM. WIDE has two column groups. ALONE is for as many blocks as SMs, or fewer.
constexpr SkinnyMPolicy M8{.row_warps = 1, .row_tiles = 1, .load_stages = 3};
constexpr SkinnyMPolicy M16{.row_warps = 2, .row_tiles = 1, .load_stages = 3};
constexpr SkinnyMPolicy M16_FEWER_LOADS{.row_warps = 2, .row_tiles = 1, .load_stages = 2};
constexpr SkinnyMPolicy M32_FOUR_WARPS{.row_warps = 4, .row_tiles = 1, .load_stages = 3};
constexpr SkinnyMPolicy M32_TWO_WARPS{.row_warps = 2, .row_tiles = 2, .load_stages = 3};
constexpr SkinnyMPolicy M64{.row_warps = 4, .row_tiles = 2, .load_stages = 3};
constexpr SkinnyMPolicy M64_WIDE{
    .column_groups = 2, .row_warps = 4, .row_tiles = 2, .load_stages = 3};
constexpr SkinnyMPolicy M16_ALONE{
    .row_warps = 2, .row_tiles = 1, .smem_stages = 4, .load_stages = 4, .is_alone = true};
constexpr SkinnyMPolicy M32_ALONE{
    .row_warps = 4, .row_tiles = 1, .smem_stages = 4, .load_stages = 4, .is_alone = true};
constexpr SkinnyMPolicy M64_ALONE{
    .row_warps = 8, .row_tiles = 1, .smem_stages = 3, .load_stages = 4, .is_alone = true};

// For a B that is split already. The stages are what is in flight from memory.
constexpr SkinnyMPolicy HI_LO_M8{.row_warps = 1, .row_tiles = 1, .smem_stages = 5};
constexpr SkinnyMPolicy HI_LO_M16{.row_warps = 2, .row_tiles = 1, .smem_stages = 5};
constexpr SkinnyMPolicy HI_LO_M16_WIDE{
    .column_groups = 2, .row_warps = 2, .row_tiles = 1, .smem_stages = 4};
constexpr SkinnyMPolicy HI_LO_M32{.row_warps = 2, .row_tiles = 2, .smem_stages = 4};
constexpr SkinnyMPolicy HI_LO_M64{.row_warps = 4, .row_tiles = 2, .smem_stages = 4};
constexpr SkinnyMPolicy HI_LO_M64_WIDE{
    .column_groups = 2, .row_warps = 4, .row_tiles = 2, .smem_stages = 4};

/// What follows from a layout of B, a policy and the way of A.
template <typename BLayout_, SkinnyMPolicy POLICY, LoadA LOAD_A_ = LoadA::TMA>
struct SkinnyMConfig {
  using BLayout = BLayout_;
  static constexpr LoadA LOAD_A = LOAD_A_;
  static constexpr bool TARGET_HAS_CODE = LOAD_A == LoadA::TMA ? TARGET_HAS_SM90A : TARGET_HAS_SM80;
  /// Of an SM: Hopper's, and an A100's.
  static constexpr int SM_SHARED_BYTES =
      LOAD_A == LoadA::TMA ? static_cast<int>(sm90::SHARED_BYTES) : SM80_SHARED_BYTES;
  using Producer =
      std::conditional_t<std::is_same_v<BLayout, HiLoLayout>, HiLoProducer<POLICY.column_groups>,
                         SplitProducer<BLayout, POLICY.column_groups, POLICY.load_stages>>;
  static constexpr int STAGES = POLICY.smem_stages;
  using Pipeline = PipelineState<STAGES>;
  static constexpr int COLUMN_GROUPS = POLICY.column_groups, ROW_TILES = POLICY.row_tiles;
  static constexpr int TILE_M = POLICY.row_warps * ROW_TILES * MMA_ROWS;
  static constexpr int TILE_N = Producer::TILE_N;
  static constexpr int MMA_THREADS = COLUMN_GROUPS * POLICY.row_warps * WARP;
  static constexpr int LOAD_WARPS = LOAD_A == LoadA::TMA ? 1 : POLICY.row_warps;
  static constexpr int THREADS = Producer::THREADS + MMA_THREADS + LOAD_WARPS * WARP;
  static constexpr int FALLBACK_THREADS = THREADS;  ///< that compute FALLBACK rows and columns
  /// Threads that arrive on `full` for A.
  static constexpr int LOAD_THREADS = LOAD_A == LoadA::TMA ? 1 : LOAD_WARPS * WARP;
  static constexpr int A_K_BLOCK_BYTES = TILE_M * K_BLOCK_BYTES;
  static constexpr int A_BYTES = STAGE_K_BLOCKS * A_K_BLOCK_BYTES;
  static constexpr int B_BYTES = Producer::STAGE_BYTES;
  static constexpr int RAW_BYTES = Producer::RAW_BYTES;
  static constexpr size_t SMEM_BYTES =
      sm90::SWIZZLE_ATOM + RAW_BYTES +
      STAGES * (A_BYTES + B_BYTES + TILE_N * (sizeof(float) + sizeof(int)) + 2 * sizeof(Barrier)) +
      sizeof(RecomputeFlags);
  static constexpr int MIN_BLOCKS_PER_SM =
      POLICY.is_alone ? 1 : SM_SHARED_BYTES / (SMEM_BYTES + RESERVED_SMEM_BYTES);
  static_assert(TILE_M + TILE_N <= THREADS, "a thread for each row and column");
  static_assert(SMEM_BYTES <= SM_SHARED_BYTES, "stages fit into an SM's shared memory");
};

template <typename Config>
struct SkinnyMSmem {
  unsigned char* stages;
  unsigned char* raw;  ///< the producer's ring of float32 columns
  float* column_factors;
  Barrier *full, *empty;
  RecomputeFlags* flags;

  __device__ __forceinline__ SkinnyMSmem() {
    auto* const begin = dynamic_shared<unsigned char>();
    stages = begin + (-shared_address(begin) & (sm90::SWIZZLE_ATOM - 1));
    raw = b(Config::STAGES);
    column_factors = reinterpret_cast<float*>(raw + Config::RAW_BYTES);
    full = reinterpret_cast<Barrier*>(packed_scales(Config::STAGES));
    empty = full + Config::STAGES;
    flags = reinterpret_cast<RecomputeFlags*>(empty + Config::STAGES);
  }
  __device__ __forceinline__ unsigned char* a(int stage) const {
    return stages + stage * Config::A_BYTES;
  }
  __device__ __forceinline__ unsigned char* b(int stage) const {
    return a(Config::STAGES) + stage * Config::B_BYTES;
  }
  /// By what the accumulators of each column are multiplied before the stage.
  __device__ __forceinline__ float* factors(int stage) const {
    return column_factors + stage * Config::TILE_N;
  }
  /// The packed RowScale of each column, valid in the last stage of a tile.
  __device__ __forceinline__ int* packed_scales(int stage) const {
    return reinterpret_cast<int*>(factors(Config::STAGES)) + stage * Config::TILE_N;
  }
};

/// The k slice of a tile: all of K without split-K.
template <typename Config>
struct TileKSlice {
  unsigned index;        ///< among the k slices of all matrices
  unsigned batch;        ///< the matrix
  unsigned k_slice = 0;  ///< in the matrix
  int length, stages, k_blocks;

  __device__ __forceinline__ TileKSlice(const SkinnyMParams& params, unsigned tile)
      : index(tile / params.tiles),
        batch(index),
        length(static_cast<int>(params.b.k)),
        stages(params.stages),
        k_blocks(params.k_blocks) {
    if constexpr (Config::BLayout::SPLIT_K) {
      batch = index / params.k_slices;
      k_slice = index - batch * params.k_slices;
      const int slice_length = static_cast<int>(params.b.k_slice_length);
      length = min(slice_length, length - static_cast<int>(k_slice) * slice_length);
      stages = ceil_div(length, STAGE_K);
      k_blocks = ceil_div(length, split::K_BLOCK);
    }
  }
};

/// Calls visit(tile, index of the tile among the block's) for each of the block's tiles, or for the
/// flagged ones if `recompute`.
template <typename Flags, typename Visit>
__device__ __forceinline__ void for_each_tile(const SkinnyMParams& params, const Flags& flags,
                                              bool recompute, const Visit& visit) {
  for (unsigned i = 0, tile = blockIdx.x; tile < params.total_tiles; ++i, tile += gridDim.x) {
    if (!recompute || flags.has_tile(i)) visit(tile, i);
  }
}

}  // namespace smem::gemm::fp16x3::skinny_m::inline SMEM_BUILD
