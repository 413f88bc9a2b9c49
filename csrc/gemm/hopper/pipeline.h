// The stages in shared memory between the warp that loads and the warpgroups that multiply.
#pragma once

#include "device/cluster.h"
#include "device/tile.h"
#include "device/tma.h"
#include "device/warpgroup.h"
#include "gemm/hopper/tile.h"

namespace smem::gemm::hopper {
inline namespace SMEM_BUILD {

/// A block's dynamic shared memory.
template <Tile TILE>
struct Shared {
  unsigned char* stages;
  unsigned char* staging;
  Barrier* full;   ///< a stage's bytes have come
  Barrier* empty;  ///< nobody reads the stage any more, here and in the blocks it is loaded for

  __device__ __forceinline__ Shared() {
    static_assert(TILE.shared_bytes() <= SHARED_BYTES, "the stages exceed an SM's shared memory");
    auto* begin = dynamic_shared<unsigned char>();
    stages = begin + (-shared_address(begin) & (SWIZZLE_ATOM - 1));
    staging = stages + TILE.stages * TILE.stage_bytes();
    full = reinterpret_cast<Barrier*>(staging + TILE.staging_bytes());
    empty = full + TILE.stages;
  }

  __device__ __forceinline__ unsigned char* a(int stage, int step) const {
    return stages + stage * TILE.stage_bytes() + step * TILE.a_bytes();
  }
  __device__ __forceinline__ unsigned char* b(int stage, int step) const {
    return stages + stage * TILE.stage_bytes() + TILE.steps * TILE.a_bytes() +
           step * TILE.b_bytes();
  }
};

/// Goes round the stages; the parity is that of the phase in which a stage becomes full.
template <int STAGES>
struct Turn {
  int stage = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void next() {
    if (++stage == STAGES) {
      stage = 0;
      parity ^= 1;
    }
  }
};

/// Where a block stands in its cluster.
template <Tile TILE>
struct Place {
  int row = 0, col = 0;

  __device__ __forceinline__ Place() {
    if constexpr (TILE.cluster() > 1) {
      const auto rank = static_cast<int>(rank_in_cluster());
      row = rank % TILE.cluster_rows;
      col = rank / TILE.cluster_rows;
    }
  }
  __device__ __forceinline__ static uint32_t rank(int row, int col) {
    return row + col * TILE.cluster_rows;
  }
  /// The blocks in the same rows or in the same columns: those that a stage's parts come from.
  static constexpr int SHARERS = TILE.cluster_rows + TILE.cluster_cols - 1;
  __device__ __forceinline__ uint32_t sharer(int i) const {
    if (i < TILE.cluster_rows) return rank(i, col);
    const int other = i - TILE.cluster_rows;
    return rank(row, other < col ? other : other + 1);
  }
  __device__ __forceinline__ uint16_t row_mask() const {
    uint16_t mask = 0;
    for (int i = 0; i < TILE.cluster_cols; ++i) mask |= 1u << rank(row, i);
    return mask;
  }
  __device__ __forceinline__ uint16_t col_mask() const {
    uint16_t mask = 0;
    for (int i = 0; i < TILE.cluster_rows; ++i) mask |= 1u << rank(i, col);
    return mask;
  }
};

/// By all threads, before the first use of the barriers.
template <Tile TILE>
__device__ __forceinline__ void prepare_barriers(const Shared<TILE>& shared) {
  if (threadIdx.x == 0) {
    for (int i = 0; i < TILE.stages; ++i) {
      shared.full[i].init(1);
      shared.empty[i].init(Place<TILE>::SHARERS * TILE.consumers() * 4);  // a warp, an arrival
    }
    publish_barriers();
  }
  if constexpr (TILE.cluster() > 1) {
    cluster_sync();
  } else {
    __syncthreads();
  }
}

/// By every warp that multiplies, when it has read a stage for the last time.
template <Tile TILE>
__device__ __forceinline__ void release_stage(const Shared<TILE>& shared, const Place<TILE>& place,
                                              int stage) {
  const int lane = threadIdx.x % WARP;
  if constexpr (TILE.cluster() > 1) {
    if (lane < Place<TILE>::SHARERS) shared.empty[stage].arrive_in(place.sharer(lane));
  } else {
    if (lane == 0) shared.empty[stage].arrive();
  }
}

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::hopper
