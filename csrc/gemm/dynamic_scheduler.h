// A dynamic persistent scheduler: clusters take the work tiles of a TileScheduler from a counter in
// global memory. A cluster that starts late, because another kernel holds its SM, so leaves its
// share to the others. The results are the same: no tile depends on another.
//
//   producer of block 0     atomicAdd on the counter, after the last load of the work tile before;
//                           st.async of work tile n to slot n % SLOTS of all blocks of the cluster
//                           (a plain store if there is one: st.async needs a cluster)
//   producers of the others wait for the slot, as do all consumers
//
// Slots have a full barrier but no empty one. The producer of block 0 sends work tile n after its
// loads for n - 1, each of which has waited until all consumers had released the stage that it
// fills. Each work tile fills at least one stage. So all threads have read work tile n - 1 - STAGES
// by then, and its slot may be used again.
#pragma once

#include "device/dsmem.h"
#include "device/warpgroup.h"
#include "gemm/pipeline_state.h"
#include "gemm/tile_scheduler.h"

namespace smem::gemm::inline SMEM_BUILD {

struct alignas(16) WorkTileSlot {
  Barrier full;  ///< one arrival, of the block's producer, and the bytes of an st.async
  uint32_t work_tile;
};
static_assert(sizeof(WorkTileSlot) == WORK_TILE_SLOT_BYTES, "the tiles count the slots' bytes");

/// A consumer warp's way through the work tiles of its cluster. It has reached the end when the
/// number that it gets is no work tile's. Without a counter the scheduler is static
/// (tile_scheduler.h).
template <int STAGES, int CLUSTER_SIZE>
class WorkTileSequence {
 public:
  __device__ __forceinline__ WorkTileSequence(const TileScheduler& scheduler, WorkTileSlot* slots)
      : scheduler_(scheduler), slots_(slots) {}

  __device__ __forceinline__ const TileScheduler& scheduler() const { return scheduler_; }

  __device__ __forceinline__ uint32_t first() {
    return scheduler_.counter ? await() : blockIdx.x / CLUSTER_SIZE;
  }
  __device__ __forceinline__ uint32_t after(uint32_t work_tile) {
    return scheduler_.counter ? await() : work_tile + clusters();
  }

 protected:
  __device__ __forceinline__ uint32_t await() {
    const WorkTileSlot& slot = full_slot();
    // Lane 0 reads: it is the one that will release the stage.
    uint32_t work_tile = 0;
    if (threadIdx.x % WARP == 0) work_tile = slot.work_tile;
    return __shfl_sync(~0u, work_tile, 0);
  }
  __device__ __forceinline__ const WorkTileSlot& full_slot() {
    WorkTileSlot& slot = slots_[state_.stage];
    slot.full.wait(state_.parity);
    state_.next();
    return slot;
  }
  __device__ __forceinline__ static uint32_t clusters() { return gridDim.x / CLUSTER_SIZE; }

  const TileScheduler& scheduler_;
  WorkTileSlot* slots_;
  PipelineState<work_tile_slots(STAGES)> state_;
};

/// That of a producer, one thread of a block; `rank` is the block's in its cluster.
template <int STAGES, int CLUSTER_SIZE>
class ProducerWorkTileSequence : WorkTileSequence<STAGES, CLUSTER_SIZE> {
  using Base = WorkTileSequence<STAGES, CLUSTER_SIZE>;
  using Base::clusters, Base::scheduler_, Base::slots_, Base::state_;

 public:
  using Base::scheduler;

  __device__ __forceinline__ ProducerWorkTileSequence(const TileScheduler& scheduler,
                                                      WorkTileSlot* slots, uint32_t rank)
      : Base(scheduler, slots), rank_(rank) {}

  /// Fetches the first work tile. May be called before the barriers are initialized.
  __device__ __forceinline__ void begin() { first_ = fetch(); }
  __device__ __forceinline__ uint32_t first() {
    return scheduler_.counter ? share(first_) : Base::first();
  }
  /// Call it after the last load of a work tile. What the stages hold hides the latency: a fetch
  /// one work tile ahead gave each cluster two at the start, in no order that suits L2, and 2048^3
  /// took 33 us instead of 28.
  __device__ __forceinline__ uint32_t after(uint32_t work_tile) {
    return scheduler_.counter ? share(fetch()) : Base::after(work_tile);
  }

 private:
  __device__ __forceinline__ uint32_t fetch() const {
    return scheduler_.counter && rank_ == 0 ? atomicAdd(scheduler_.counter, 1u) : 0;
  }

  /// Block 0's work tile, for all threads of the cluster.
  __device__ __forceinline__ uint32_t share(uint32_t work_tile) {
    WorkTileSlot& slot = slots_[state_.stage];
    if constexpr (CLUSTER_SIZE == 1) {
      slot.work_tile = work_tile;
      slot.full.arrive();
    } else {
      slot.full.arrive_and_expect_tx(sizeof slot.work_tile);
      if (rank_ != 0) return Base::full_slot().work_tile;
#pragma unroll
      for (int block = 0; block < CLUSTER_SIZE; ++block) {
        store_async_in(block, &slot.work_tile, work_tile, slot.full);
      }
    }
    state_.next();
    if (work_tile == scheduler_.work_tiles + clusters() - 1) {
      *scheduler_.counter = 0;  // all clusters have got their last number: for the next launch
    }
    return work_tile;
  }

  uint32_t rank_, first_ = 0;
};

/// Calls visit(work, index) for each work tile of a consumer warp's sequence, or a producer's.
template <typename Sequence, typename Visit>
__device__ __forceinline__ void for_each_work_tile_of(Sequence sequence, const Visit& visit) {
  const TileScheduler& scheduler = sequence.scheduler();
  for (uint32_t i = sequence.first(); i < scheduler.work_tiles; i = sequence.after(i)) {
    visit(work_tile_at(scheduler, i), i);
  }
}

}  // namespace smem::gemm::inline SMEM_BUILD
