// The stages in shared memory between the warp that loads and the warpgroups that multiply.
#pragma once

#include "device/cluster.h"
#include "device/tile.h"
#include "device/tma.h"
#include "device/warpgroup.h"
#include "gemm/sm90/tile_config.h"

namespace smem::gemm::sm90 {
inline namespace SMEM_BUILD {

/// A block's dynamic shared memory.
template <Tile TILE>
struct Shared {
  unsigned char* stages;
  unsigned char* staging;
  Barrier* full;   ///< a stage's bytes have come
  Barrier* empty;  ///< nobody reads the stage any more, here and in the blocks it is loaded for

  __device__ __forceinline__ Shared() {
    static_assert(TILE.is_valid(), "whole panels, and stages within an SM's shared memory");
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

/// By the thread that loads.
template <Tile TILE>
__device__ __forceinline__ void prepare_barriers(const Shared<TILE>& shared) {
  for (int i = 0; i < TILE.stages; ++i) {
    shared.full[i].init(1);
    // A stage is written for all blocks of the cluster: every warp of them that reads arrives.
    shared.empty[i].init(TILE.cluster * TILE.consumers() * 4);
  }
  fence_barrier_init();
}

/// By all threads, before the first use of the barriers. The warp that loads need not wait for
/// others, unless it loads for another block, too; nor has the rest of its warpgroup any part.
template <Tile TILE>
__device__ __forceinline__ void await_barriers(bool loads, bool multiplies) {
  constexpr int THREADS = TILE.consumers() * WARPGROUP + WARP;
  if constexpr (TILE.cluster > 1) {
    cluster_sync();
  } else if (multiplies) {
    named_barrier_sync<THREADS>();
  } else if (loads) {
    __syncwarp();
    named_barrier_arrive<THREADS>();
  }
}

/// By every warp that multiplies, when it has read a stage for the last time.
template <Tile TILE>
__device__ __forceinline__ void release_stage(const Shared<TILE>& shared, int stage) {
  const int lane = threadIdx.x % WARP;
  if constexpr (TILE.cluster > 1) {
    if (lane < TILE.cluster) shared.empty[stage].arrive_in(lane);
  } else {
    if (lane == 0) shared.empty[stage].arrive();
  }
}

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::sm90
