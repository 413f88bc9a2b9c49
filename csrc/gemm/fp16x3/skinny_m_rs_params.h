// The configurations of skinny_m_rs.cu, its shared memory, and where a lane's elements of B are.
#pragma once

#include "device/opaque.h"
#include "gemm/fp16x3/fragment_split.h"
#include "gemm/fp16x3/skinny_m_params.h"

namespace smem::gemm::fp16x3::skinny_m::inline SMEM_BUILD {

using sm90::ROW_BYTES;

constexpr int WARPGROUP_COLS = 64, WARP_COLS = 16;
/// Of K, per stage: what is promoted at once.
constexpr int RS_K_BLOCKS = PROMOTION_INTERVAL, RS_STAGE_K = RS_K_BLOCKS * split::K_BLOCK;

/// The shape of a tile and its pipeline. A wider tile shares more rows of A, a narrower one lets an
/// SM have two blocks.
template <bool K_MAJOR_, int TILE_M_>
struct RsConfig {
  struct BLayout {  // what skinny_m_mma.h asks of it
    static constexpr bool SPLIT_K = false;
  };
  static constexpr bool K_MAJOR = K_MAJOR_;
  static constexpr int TILE_M = TILE_M_, ROW_TILES = TILE_M / MMA_ROWS;
  static constexpr int WARPGROUPS = TILE_M <= 32 ? 1 : 2, TILE_N = WARPGROUPS * WARPGROUP_COLS;
  static constexpr int CONSUMER_THREADS = WARPGROUPS * WARPGROUP;
  static constexpr int CONSUMER_WARPS = CONSUMER_THREADS / WARP;
  static constexpr int FALLBACK_THREADS = CONSUMER_THREADS;
  static constexpr int THREADS = (WARPGROUPS + 1) * WARPGROUP;
  static constexpr int BLOCKS_PER_SM = WARPGROUPS == 1 ? 2 : 1;
  /// A warpgroup multiplies the k blocks of a stage in steps: registers are the limit.
  static constexpr int STEPS = TILE_M <= 32 ? 1 : RS_K_BLOCKS, K_BLOCKS = RS_K_BLOCKS / STEPS;
  static_assert(STEPS <= 2, "multiply_tiles writes out the steps of a stage");
  static constexpr int ACCUMS = ROW_TILES * 4;  ///< of each kind, per thread
  static constexpr int LOAD_REGISTERS = 24, REGISTERS = WARPGROUPS == 1 ? 224 : 240;
  static constexpr int A_K_BLOCK_BYTES = TILE_M * K_BLOCK_BYTES;
  static constexpr int B_BYTES = TILE_N * RS_STAGE_K * int{sizeof(float)};
  static constexpr int STAGE_BYTES = B_BYTES + RS_K_BLOCKS * A_K_BLOCK_BYTES;
  static constexpr int OTHER_BYTES = 4096;  ///< alignment, barriers and flags, at most
  static constexpr int STAGES =
      (static_cast<int>(sm90::SHARED_BYTES) / BLOCKS_PER_SM - RESERVED_SMEM_BYTES - OTHER_BYTES) /
      STAGE_BYTES;
  static constexpr size_t SMEM_BYTES = STAGES * STAGE_BYTES + OTHER_BYTES;
  using Pipeline = PipelineState<STAGES>;
};

/// What a block's threads record until the block has gone through all its tiles.
struct TileFlags {
  uint32_t warps[MAX_TILES / 4];  ///< a byte per tile, a bit per warp to compute it again
  uint32_t has_fallback;          ///< a row or column is FALLBACK

  __device__ __forceinline__ unsigned warps_of(unsigned tile) const {
    return warps[tile / 4] >> tile % 4 * 8 & 0xff;
  }
  __device__ __forceinline__ bool has_tile(unsigned index) const { return warps_of(index) != 0; }
  /// By a whole warp.
  __device__ __forceinline__ bool is_any_flagged() const {
    uint32_t any = 0;
    for (int i = threadIdx.x % WARP; i < MAX_TILES / 4; i += WARP) any |= warps[i];
    return __any_sync(~0u, any != 0);
  }
};

template <typename Config>
struct RsSmem {
  unsigned char* stages;
  Barrier *full, *empty;
  TileFlags* flags;

  __device__ __forceinline__ RsSmem() {
    auto* const begin = dynamic_shared<unsigned char>();
    stages = begin + (-shared_address(begin) & (sm90::SWIZZLE_ATOM - 1));
    full = reinterpret_cast<Barrier*>(stages + Config::STAGES * Config::STAGE_BYTES);
    empty = full + Config::STAGES;
    flags = reinterpret_cast<TileFlags*>(empty + Config::STAGES);
    static_assert(sm90::SWIZZLE_ATOM + 2 * Config::STAGES * sizeof(Barrier) + sizeof(TileFlags) <=
                      Config::OTHER_BYTES,
                  "everything has its place");
  }
  __device__ __forceinline__ unsigned char* b(int stage) const {
    return stages + stage * Config::STAGE_BYTES;
  }
  __device__ __forceinline__ unsigned char* a(int stage) const {
    return b(stage) + Config::B_BYTES;
  }
};

/// Where a lane's elements are in a stage.
template <typename Config>
struct LaneElementsInStage {
  int cols[LANE_COLS];  ///< the lane's columns in the tile
  int offsets[2];       ///< in bytes: of its first element; for an MN-major B, of the next k, too

  __device__ __forceinline__ LaneElementsInStage() {
    const int warp = threadIdx.x / WARP, group = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
    if constexpr (Config::K_MAJOR) {
      const int row = group % 4 * 2 + group / 4;
      cols[0] = warp * WARP_COLS + row;
      cols[1] = cols[0] + 8;
      offsets[0] = offsets[1] = cols[0] * ROW_BYTES + ((t / 2) ^ row) * 16 + t % 2 * 8;
    } else {
      cols[0] = warp * WARP_COLS + group * 2;
      cols[1] = cols[0] + 1;
      const int box = warp / 2, vec = warp % 2 * 4 + group / 2;
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int row = 2 * t + e;
        offsets[e] = (box * RS_STAGE_K + row) * ROW_BYTES + (vec ^ row) * 16 + group % 2 * 8;
      }
    }
  }

  __device__ __forceinline__ void load(const unsigned char* stage,
                                       LaneElements<RS_K_BLOCKS>& elements) const {
    const auto pair_at = [&](int offset) {
      return *reinterpret_cast<const Vector<float, 2>*>(stage + offset);
    };
    int offset = offsets[0];
    opaque(offset);  // or the offset of each k would have a register of its own
#pragma unroll
    for (int i = 0; i < RS_K_BLOCKS * K_BLOCK_ELEMENTS; i += 2) {
      const int block = i / K_BLOCK_ELEMENTS, k = fragment_k(i % K_BLOCK_ELEMENTS);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        if constexpr (Config::K_MAJOR) {
          const auto pair =
              pair_at((offset ^ k * 4) + (block * Config::TILE_N + j * 8) * ROW_BYTES);
          elements[j].lane[i] = pair.lane[0];
          elements[j].lane[i + 1] = pair.lane[1];
        } else {
          const auto pair = pair_at(offsets[j] + (block * split::K_BLOCK + k) * ROW_BYTES);
          elements[0].lane[i + j] = pair.lane[0];
          elements[1].lane[i + j] = pair.lane[1];
        }
      }
    }
  }
};

}  // namespace smem::gemm::fp16x3::skinny_m::inline SMEM_BUILD
