// The work tiles of a block whose operands have rows that begin anywhere.
//
//   global memory --cp.async--> raw stages, rows as they lie in memory    stages k-tiles ahead
//                 --shift-----> two swizzled stages                       one k-tile ahead
//                 --ldmatrix--> fragments --mma.sync--> accumulators
//
// An iteration shifts k-tile k + 1 and multiplies k-tile k, between two barriers. The raw stage of
// k-tile k, which the iteration before shifted, is free then. Behind the last k-tile of a work tile
// come those of the block's next one, which are copied and shifted during the epilogue.
//
// The warps that load and those that multiply are the same ones or different ones
// (TileConfig::loader_warps): a k-tile takes as long as both together, or as the slower of the two.
#pragma once

#include "device/warpgroup.h"
#include "gemm/sm80/load_unaligned.h"
#include "gemm/sm80/params.h"
#include "gemm/warp_mma.h"

namespace smem::gemm::sm80::inline SMEM_BUILD {

/// Copies and shifts the k-tiles of a block's work tiles, in order.
template <typename T, typename Shape, bool A_K_MAJOR, bool B_K_MAJOR>
class UnalignedStages {
  static constexpr int TILE_K = Shape::template TILE_K<T>, STAGES = Shape::STAGES;
  static_assert(STAGES <= 8, "the loaders keep four bits of a word for each raw stage");

 public:
  using LayoutA = SmemLayout<T, A_K_MAJOR, Shape::TILE_M, TILE_K>;
  using LayoutB = SmemLayout<T, B_K_MAJOR, Shape::TILE_N, TILE_K>;
  static_assert(LayoutA::ROWS * RAW_PITCH<LayoutA> <= Shape::A_RAW_BYTES &&
                    LayoutB::ROWS * RAW_PITCH<LayoutB> <=
                        Shape::RAW_STAGE_BYTES - Shape::A_RAW_BYTES,
                "a raw stage holds the rows of both operands");

  __device__ __forceinline__ UnalignedStages(unsigned char* shared, const MmaParams<T>& params)
      : stages_(shared),
        raw_stages_(shared + Shape::RAW_STAGES_OFFSET),
        params_(params),
        work_tile_(blockIdx.x) {}

  /// Starts the copies of the first k-tiles, one less than there are raw stages.
  __device__ __forceinline__ void copy_first() {
#pragma unroll 1
    for (int stage = 1; stage < STAGES; ++stage) copy_next();
  }

  /// Starts the copies of the next k-tile, if there is one.
  __device__ __forceinline__ void copy_next() {
    if (uncopied_ > 0) {
      copy<false>();
    } else if (work_tile_ < params_.scheduler.work_tiles) {
      start_work_tile();
      copy<true>();
    }
    cp_async_commit();
    write_stage_ = next(write_stage_);
  }

  /// Shifts the next k-tile, which has landed for all threads, if there is one.
  __device__ __forceinline__ void shift_next() {
    if (unshifted_ == 0) return;
    --unshifted_;
    const unsigned char* const from = raw_stages_ + read_stage_ * Shape::RAW_STAGE_BYTES;
    unsigned char* const to = stages_ + shifted_ * Shape::STAGE_BYTES;
    load_a_.shift(from, read_stage_, reinterpret_cast<T*>(to));
    load_b_.shift(from + Shape::A_RAW_BYTES, read_stage_,
                  reinterpret_cast<T*>(to + Shape::A_BYTES));
    read_stage_ = next(read_stage_);
    shifted_ ^= 1;
  }

  /// The raw stage behind `stage`.
  static __device__ __forceinline__ int next(int stage) {
    return stage + 1 == STAGES ? 0 : stage + 1;
  }

 private:
  __device__ __forceinline__ void start_work_tile() {
    const WorkTileInfo work = work_tile_at(params_.scheduler, work_tile_);
    work_tile_ += gridDim.x;
    uncopied_ = work.k_tiles;
    const unsigned thread = threadIdx.x - (Shape::THREADS - Shape::LOADER_THREADS);
    const int row0 = work.row * Shape::TILE_M, col0 = work.col * Shape::TILE_N;
    const int first_k = work.first_k_tile * TILE_K;
    const int valid_k = min(params_.K - first_k, work.k_tiles * TILE_K);
    const auto &a = params_.a, &b = params_.b;
    load_a_.start(a.data, a.template at<A_K_MAJOR>(row0, first_k, work.batch), a.pitch,
                  min(params_.M - row0, Shape::TILE_M), valid_k, thread);
    load_b_.start(b.data, b.template at<B_K_MAJOR>(col0, first_k, work.batch), b.pitch,
                  min(params_.N - col0, Shape::TILE_N), valid_k, thread);
  }

  template <bool FIRST>
  __device__ __forceinline__ void copy() {
    unsigned char* const stage = raw_stages_ + write_stage_ * Shape::RAW_STAGE_BYTES;
    load_a_.template copy<FIRST>(stage, write_stage_);
    load_b_.template copy<FIRST>(stage + Shape::A_RAW_BYTES, write_stage_);
    --uncopied_;
    ++unshifted_;
  }

  unsigned char *stages_, *raw_stages_;
  const MmaParams<T>& params_;
  UnalignedLoader<LayoutA, Shape::LOADER_THREADS> load_a_;
  UnalignedLoader<LayoutB, Shape::LOADER_THREADS> load_b_;
  uint32_t work_tile_;  ///< the next one to copy
  int uncopied_ = 0;    ///< k-tiles of the work tile that is copied
  int unshifted_ = 0;   ///< k-tiles that have been copied, but not shifted
  int write_stage_ = 0, read_stage_ = 0, shifted_ = 0;
};

/// Adds the products of a k-tile. read(fragments, k) reads those of an mma step, one step ahead.
template <int TILE_K, int MMA_K, typename Mma, typename Read>
__device__ __forceinline__ void multiply_k_tile(Mma& mma, const Read& read) {
  typename Mma::Fragments fragments[2];
  read(fragments[0], 0);
#pragma unroll
  for (int step = 0; step < TILE_K / MMA_K; ++step) {
    if ((step + 1) * MMA_K < TILE_K) read(fragments[1 - step % 2], (step + 1) * MMA_K);
    mma.multiply(fragments[step % 2]);
  }
}

template <typename T, typename Shape, bool A_K_MAJOR, bool B_K_MAJOR>
class UnalignedMainloop {
  static constexpr int MMA_K = 2 * VECTOR_WIDTH<T>, TILE_K = Shape::template TILE_K<T>;
  using Stages = UnalignedStages<T, Shape, A_K_MAJOR, B_K_MAJOR>;

 public:
  using Mma = WarpMma<Shape, typename Stages::LayoutA, typename Stages::LayoutB>;

  /// Computes the block's work tiles. The threads that multiply call
  /// store(accumulators, work tile, a stage that is free).
  template <typename Store>
  __device__ __forceinline__ static void run(unsigned char* shared, const MmaParams<T>& params,
                                             const Store& store) {
    const bool loads = Shape::loads(), multiplies = Shape::multiplies();
    Stages stages(shared, params);
    if (loads) stages.copy_first();
    await_raw_stage();
    if (loads) {
      stages.shift_next();
      stages.copy_next();
    }
    int stage = 0;
#pragma unroll 1
    for (uint32_t i = blockIdx.x; i < params.scheduler.work_tiles; i += gridDim.x) {
      const WorkTileInfo work = work_tile_at(params.scheduler, i);
      Mma mma;
#pragma unroll 1
      for (int k_tile = 0; k_tile < work.k_tiles; ++k_tile, stage ^= 1) {
        await_raw_stage();
        if (loads) stages.shift_next();
        if (multiplies) {
          const unsigned from = shared_address(shared) + stage * Shape::STAGE_BYTES;
          multiply_k_tile<TILE_K, MMA_K>(
              mma, [&](auto& fragments, int k) { mma.read(fragments, from, k); });
        }
        // Last: reads of shared memory would wait behind the copies.
        if (loads) stages.copy_next();
      }
      if (multiplies) {
        named_barrier_sync<Shape::MMA_THREADS>();  // all have read the last stage
        store(mma, work, shared + (stage ^ 1) * Shape::STAGE_BYTES);
      }
    }
  }

 private:
  /// Afterwards the oldest raw stage in flight has landed for all threads, and they have shifted
  /// the one before.
  static __device__ __forceinline__ void await_raw_stage() {
    cp_async_wait<Shape::STAGES - 2>();
    __syncthreads();
  }
};

}  // namespace smem::gemm::sm80::inline SMEM_BUILD
