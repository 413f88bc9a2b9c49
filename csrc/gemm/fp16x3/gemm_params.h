// The configuration of gemm.cu: its tile, its pipeline and its shared memory.
#pragma once

#include "gemm/dynamic_scheduler.h"
#include "gemm/fp16x3/gemm_tiles.h"
#include "gemm/sm90/pipeline.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {

using sm90::ROW_BYTES;

constexpr int STAGES = 5;
constexpr int CONSUMERS = 2, CONSUMER_THREADS = CONSUMERS * WARPGROUP;
constexpr int THREADS = CONSUMER_THREADS + WARPGROUP;
constexpr int HALF_BYTES = 2;
/// The most work tiles of a dynamic scheduler: shared memory has a bit for each, which says whether
/// the block has found FALLBACK rows or columns in it.
constexpr int MAX_DYNAMIC_TILES = 14 * 1024, FALLBACK_WORDS = MAX_DYNAMIC_TILES / 32;
static_assert(ROW_BYTES == 2 * TILE_K * HALF_BYTES, "hi and lo of a k block fill a row");

using Pipeline = PipelineState<STAGES>;

/// What depends on the width of a tile, which is less if out has too few tiles for all SMs.
template <int TILE_N_, int CLUSTER_ = 1>
struct TileConfig {
  static constexpr int TILE_N = TILE_N_;
  static constexpr int CLUSTER = CLUSTER_;   ///< blocks, one below the other, that share tiles of B
  static constexpr int ACCUMS = TILE_N / 2;  ///< per thread, of the 64 rows of its warpgroup
  static constexpr int A_BYTES = TILE_M * ROW_BYTES, STAGE_BYTES = A_BYTES + TILE_N * ROW_BYTES;
  static constexpr size_t SMEM_BYTES =
      sm90::SWIZZLE_ATOM + STAGES * STAGE_BYTES + ACCUMS * CONSUMER_THREADS * sizeof(float) +
      2 * STAGES * sizeof(Barrier) + work_tile_slots(STAGES) * sizeof(WorkTileSlot) +
      FALLBACK_WORDS * sizeof(uint32_t);
  static_assert(SMEM_BYTES <= sm90::SHARED_BYTES, "stages and totals fit into shared memory");
  static_assert(ACCUMS % (2 * PROMOTION_GROUPS) == 0,
                "a tile holds all promotion groups, equally often");
};

struct Fp16x3Params {
  Problem problem;
  CUtensorMap a_map, b_map;
  CUtensorMap a_tail_map, b_tail_map;  ///< of the last tile, if it has fewer rows or columns
  TileScheduler scheduler;
  Epilogue<float> epilogue;  ///< of the first matrix of the batch
  BatchStrides strides;
  SplitMetadata a, b;
  int64_t k_slice_length;
  float* partials;  ///< with split-K: an M x N matrix per k slice, else null
};

template <typename Config>
struct GemmSmem {
  unsigned char* stages;
  float* totals;  ///< of one warp after the other, see promote_group
  Barrier *full, *empty;
  WorkTileSlot* slots;
  uint32_t* fallback_tiles;  ///< bits

  __device__ __forceinline__ GemmSmem() {
    auto* begin = dynamic_shared<unsigned char>();
    stages = begin + (-shared_address(begin) & (sm90::SWIZZLE_ATOM - 1));
    totals = reinterpret_cast<float*>(stages + STAGES * Config::STAGE_BYTES);
    full = reinterpret_cast<Barrier*>(totals + Config::ACCUMS * CONSUMER_THREADS);
    empty = full + STAGES;
    slots = reinterpret_cast<WorkTileSlot*>(empty + STAGES);
    fallback_tiles = reinterpret_cast<uint32_t*>(slots + work_tile_slots(STAGES));
  }
  __device__ __forceinline__ unsigned char* a(int stage) const {
    return stages + stage * Config::STAGE_BYTES;
  }
  __device__ __forceinline__ unsigned char* b(int stage) const {
    return a(stage) + Config::A_BYTES;
  }
};

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
