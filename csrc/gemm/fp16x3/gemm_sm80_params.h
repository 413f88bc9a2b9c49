// The configuration of gemm_sm80.cu: its tiles, its pipeline and its shared memory.
#pragma once

#include "device/mbarrier.h"
#include "gemm/fp16x3/gemm_tiles.h"
#include "gemm/pipeline_state.h"
#include "gemm/sm80/load_multistage.h"

namespace smem::gemm::fp16x3::mma::inline SMEM_BUILD {

constexpr int STAGES = 3, WARPS = 8, THREADS = WARPS * WARP;
/// A warp computes ROW_TILES x 16 rows and 32 columns: one of each promotion group, as often.
constexpr int WARP_N = 32, ACCUMS = WARP_N / 2;  ///< ACCUMS: per thread and 16 rows
/// hi and lo of a k block, in a stage: 128 bytes per row.
constexpr int STAGE_K = 2 * TILE_K, ROW_BYTES = STAGE_K * 2;

/// What depends on the width of a tile.
template <int TILE_N_>
struct MmaTile {
  static constexpr int TILE_N = TILE_N_;
  static constexpr int WARPS_N = TILE_N / WARP_N, WARP_M = TILE_M * WARPS_N / WARPS;
  static constexpr int ROW_TILES = WARP_M / 16;  ///< of a warp; also the parts of a stage's copies
  using LayoutA = SmemLayout<half, true, TILE_M, STAGE_K>;
  using LayoutB = SmemLayout<half, true, TILE_N, STAGE_K>;
  static constexpr int A_BYTES = TILE_M * ROW_BYTES, STAGE_BYTES = A_BYTES + TILE_N * ROW_BYTES;
  static constexpr int TOTALS = ROW_TILES * ACCUMS;  ///< per thread
  static constexpr size_t BARRIERS_OFFSET =
      STAGES * STAGE_BYTES + size_t{TOTALS} * THREADS * sizeof(float);
  static constexpr size_t SMEM_BYTES = BARRIERS_OFFSET + 2 * STAGES * sizeof(Barrier);

  static_assert(WARP_M % 16 == 0 && (WARP_M & (WARP_M - 1)) == 0,
                "FragmentReader combines addresses by exclusive or");
  static_assert(SMEM_BYTES <= size_t{163} * 1024, "a block on sm_80 has at most 163 KiB");
  static_assert(sizeof(ThreadTile<float>::Stage[2][2]) <= STAGES * STAGE_BYTES,
                "compute_fallback_tile uses the stages");
  static_assert(ThreadTile<float>::THREADS == THREADS, "and needs as many threads");
};

struct MmaProductParams {
  Problem problem;
  HiLoRows a_rows, b_rows;
  TileScheduler scheduler;
  Epilogue<float> epilogue;  ///< of the first matrix of the batch
  BatchStrides strides;
  SplitMetadata a, b;
  int64_t k_slice_length;
  float* partials;  ///< with split-K: an M x N matrix per k slice, else null
};

/// Two barriers per stage, behind the totals.
template <typename Tile>
struct StageBarriers {
  Barrier* full;   ///< completes when all threads' copies of a k block have landed
  Barrier* empty;  ///< completes when no warp reads the stage any more

  __device__ __forceinline__ explicit StageBarriers(unsigned char* shared)
      : full(reinterpret_cast<Barrier*>(shared + Tile::BARRIERS_OFFSET)), empty(full + STAGES) {}

  /// Called by one thread.
  __device__ __forceinline__ void init() const {
    for (int i = 0; i < STAGES; ++i) {
      full[i].init(THREADS);
      empty[i].init(WARPS);
    }
  }
};

using Pipeline = PipelineState<STAGES>;

/// Copies the k blocks of all of a block's work tiles into the stages, one after the other. So the
/// first k blocks of a tile are copied while the tile before it is still multiplied and stored.
template <typename Tile>
class StageLoader {
  static constexpr int PARTS = Tile::ROW_TILES;

 public:
  __device__ __forceinline__ StageLoader(const MmaProductParams& params, unsigned char* shared)
      : params_(params), shared_(shared) {}

  /// Starts a part of the copies of the next k block, from 0 to ROW_TILES - 1. Behind the last k
  /// block of the last tile it writes zeros.
  __device__ __forceinline__ void copy_part(int part) {
    if (part == 0 && k_blocks_left_ == 0) begin_tile();
    const StageBarriers<Tile> barriers(shared_);
    if (part == 0) barriers.empty[pipeline_.stage].wait(pipeline_.parity ^ 1);
    auto* const stage = reinterpret_cast<half*>(shared_ + pipeline_.stage * Tile::STAGE_BYTES);
    load_a_.template copy<sm80::Edges::ROWS>(stage, part);
    load_b_.template copy<sm80::Edges::ROWS>(stage + Tile::LayoutA::ELEMENTS, part);
    if (part < PARTS - 1) return;
    barriers.full[pipeline_.stage].arrive_after_copies();
    load_a_.advance();
    load_b_.advance();
    --k_blocks_left_;
    pipeline_.next();
  }

 private:
  __device__ __forceinline__ void begin_tile() {
    const TileScheduler& scheduler = params_.scheduler;
    const bool exists = tile_ < scheduler.work_tiles;
    const WorkTileInfo tile = work_tile_at(scheduler, exists ? tile_ : blockIdx.x);
    tile_ += gridDim.x;
    const auto& out = params_.epilogue.out;
    const int row = tile.row * TILE_M, col = tile.col * Tile::TILE_N;
    const auto rows_from = [&](int64_t rows, int first) {
      return exists ? static_cast<int>(rows) - first : 0;
    };
    load_a_.start(row_at(params_.a_rows, params_.a, tile, row), params_.a_rows.pitch,
                  rows_from(out.rows, row), STAGE_K);
    load_b_.start(row_at(params_.b_rows, params_.b, tile, col), params_.b_rows.pitch,
                  rows_from(out.cols, col), STAGE_K);
    k_blocks_left_ = exists ? tile.k_tiles : INT32_MAX;
  }

  __device__ __forceinline__ static const half* row_at(const HiLoRows& rows,
                                                       const SplitMetadata& metadata,
                                                       const WorkTileInfo& tile, int row) {
    const int64_t index =
        tile.batch * metadata.batch_rows + tile.k_slice * metadata.slice_rows + row;
    return rows.data + index * static_cast<int64_t>(rows.pitch / sizeof(half));
  }

  const MmaProductParams& params_;
  unsigned char* shared_;
  sm80::AsyncLoader<typename Tile::LayoutA, THREADS, PARTS> load_a_;
  sm80::AsyncLoader<typename Tile::LayoutB, THREADS, PARTS> load_b_;
  uint32_t tile_ = blockIdx.x;  ///< the work tile that comes after the one that is copied
  int k_blocks_left_ = 0;
  Pipeline pipeline_;
};

}  // namespace smem::gemm::fp16x3::mma::inline SMEM_BUILD
