// The pipeline of shared memory stages between the producer warp and the consumer warpgroups.
#pragma once

#include "device/cluster.h"
#include "device/tile.h"
#include "device/tma.h"
#include "device/warpgroup.h"
#include "gemm/dynamic_scheduler.h"
#include "gemm/pipeline_state.h"
#include "gemm/sm90/tile_config.h"

namespace smem::gemm::sm90::inline SMEM_BUILD {

/// A block's dynamic shared memory: the stages, the staging areas of the consumer warps, two
/// barriers per stage, and the slots of a dynamic scheduler.
template <TileConfig TILE>
struct SharedStorage {
  unsigned char* stages;
  unsigned char* staging;
  Barrier* full;   ///< completes when a stage's bytes have arrived
  Barrier* empty;  ///< completes when no consumer warp reads the stage any more, in all the blocks
                   ///< that receive it
  WorkTileSlot* slots;
  static constexpr int SLOTS = work_tile_slots(TILE.stages);

  __device__ __forceinline__ SharedStorage() {
    auto* begin = dynamic_shared<unsigned char>();
    stages = begin + (-shared_address(begin) & (SWIZZLE_ATOM - 1));
    staging = stages + TILE.stages * TILE.stage_bytes();
    full = reinterpret_cast<Barrier*>(staging + TILE.staging_bytes());
    empty = full + TILE.stages;
    slots = reinterpret_cast<WorkTileSlot*>(empty + TILE.stages);
  }

  __device__ __forceinline__ unsigned char* a(int stage, int k_tile) const {
    return stages + stage * TILE.stage_bytes() + k_tile * TILE.a_bytes();
  }
  __device__ __forceinline__ unsigned char* b(int stage, int k_tile) const {
    return stages + stage * TILE.stage_bytes() + TILE.k_tiles_per_stage * TILE.a_bytes() +
           k_tile * TILE.b_bytes();
  }
};

/// Called by one thread of the producer warp.
template <TileConfig TILE>
__device__ __forceinline__ void init_barriers(const SharedStorage<TILE>& shared) {
  for (int i = 0; i < TILE.stages; ++i) {
    shared.full[i].init(1);
    // A stage is loaded for all blocks of the cluster: each of their consumer warps arrives.
    shared.empty[i].init(TILE.cluster_m * TILE.consumer_warpgroups() * 4);
  }
  for (int i = 0; i < SharedStorage<TILE>::SLOTS; ++i) shared.slots[i].full.init(1);
  fence_barrier_init();
}

/// Called by all threads, before the first use of the barriers. The producer warp need not wait for
/// the consumers, unless it also loads for other blocks. The other warps of the producer's
/// warpgroup do not take part.
template <TileConfig TILE>
__device__ __forceinline__ void sync_barrier_init(bool is_producer, bool is_consumer) {
  constexpr int THREADS = TILE.consumer_warpgroups() * WARPGROUP + WARP;
  if constexpr (TILE.cluster_m > 1) {
    cluster_sync();
  } else if (is_consumer) {
    named_barrier_sync<THREADS>();
  } else if (is_producer) {
    __syncwarp();
    named_barrier_arrive<THREADS>();
  }
}

/// Called by each consumer warp after its last read of a stage.
template <TileConfig TILE>
__device__ __forceinline__ void release_stage(const SharedStorage<TILE>& shared, int stage) {
  const int lane = threadIdx.x % WARP;
  if constexpr (TILE.cluster_m > 1) {
    if (lane < TILE.cluster_m) shared.empty[stage].arrive_in(lane);
  } else {
    if (lane == 0) shared.empty[stage].arrive();
  }
}

}  // namespace smem::gemm::sm90::inline SMEM_BUILD
