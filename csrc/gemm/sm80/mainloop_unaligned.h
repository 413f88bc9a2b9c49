// The mainloop of a work tile whose operands have rows that begin anywhere.
//
//   global memory --cp.async--> raw stages, rows as they lie in memory    stages k-tiles ahead
//                 --shift-----> two swizzled stages                       one k-tile ahead
//                 --ldmatrix--> fragments --mma.sync--> accumulators
//
// An iteration shifts k-tile k + 1 and multiplies k-tile k, between two barriers. The raw stage of
// k-tile k, which the iteration before shifted, is free then. The warps that load and those that
// multiply are the same ones or different ones (TileConfig::loader_warps): a k-tile takes as long
// as both together, or as the slower of the two.
#pragma once

#include "gemm/sm80/load_unaligned.h"
#include "gemm/sm80/params.h"
#include "gemm/warp_mma.h"

namespace smem::gemm::sm80::inline SMEM_BUILD {

template <typename T, typename Shape, bool A_K_MAJOR, bool B_K_MAJOR>
class UnalignedMainloop {
  static constexpr int MMA_K = 2 * VECTOR_WIDTH<T>, TILE_K = Shape::template TILE_K<T>;
  static constexpr int STAGES = Shape::STAGES;
  using LayoutA = SmemLayout<T, A_K_MAJOR, Shape::TILE_M, TILE_K>;
  using LayoutB = SmemLayout<T, B_K_MAJOR, Shape::TILE_N, TILE_K>;

 public:
  using Mma = WarpMma<Shape, LayoutA, LayoutB>;

  __device__ __forceinline__ UnalignedMainloop(unsigned char* shared, const MmaParams<T>& params,
                                               const WorkTileInfo& work)
      : stages_(shared), raw_stages_(shared + 2 * Shape::STAGE_BYTES), k_tiles_(work.k_tiles) {
    if (!Shape::loads()) return;
    const unsigned thread = threadIdx.x - (Shape::THREADS - Shape::LOADER_THREADS);
    const int row0 = work.row * Shape::TILE_M, col0 = work.col * Shape::TILE_N;
    const int first_k = work.first_k_tile * TILE_K;
    const int valid_k = min(params.K - first_k, work.k_tiles * TILE_K);
    load_a_.start(params.a.data, params.a.template at<A_K_MAJOR>(row0, first_k, work.batch),
                  params.a.pitch, min(params.M - row0, Shape::TILE_M), valid_k, thread);
    load_b_.start(params.b.data, params.b.template at<B_K_MAJOR>(col0, first_k, work.batch),
                  params.b.pitch, min(params.N - col0, Shape::TILE_N), valid_k, thread);
  }

  /// Adds the products of the work tile. Afterwards the stages are free for other uses.
  __device__ __forceinline__ void run(Mma& mma) {
    const bool loads = Shape::loads(), multiplies = Shape::multiplies();
    if (loads) copy_first();
    await_raw_stage();
    if (loads) {
      shift_next();
      copy_next();
    }
#pragma unroll 1
    for (int k_tile = 0; k_tile < k_tiles_; ++k_tile) {
      await_raw_stage();
      if (loads) shift_next();  // past the last k-tile: zeros
      if (multiplies) multiply(mma, shared_address(stages_) + k_tile % 2 * Shape::STAGE_BYTES);
      if (loads) copy_next();  // last: reads of shared memory would wait behind the copies
    }
    cp_async_wait_all();  // the last copies, of zeros
    __syncthreads();
  }

 private:
  static __device__ __forceinline__ int next(int stage) {
    return stage + 1 == STAGES ? 0 : stage + 1;
  }

  static __device__ __forceinline__ void multiply(Mma& mma, unsigned stage) {
    typename Mma::Fragments fragments[2];
    mma.read(fragments[0], stage, 0);
#pragma unroll
    for (int step = 0; step < TILE_K / MMA_K; ++step) {
      if ((step + 1) * MMA_K < TILE_K) {
        mma.read(fragments[1 - step % 2], stage, (step + 1) * MMA_K);
      }
      mma.multiply(fragments[step % 2]);
    }
  }

  template <bool FIRST = false>
  __device__ __forceinline__ void copy_next() {
    unsigned char* const stage = raw_stages_ + write_stage_ * Shape::RAW_STAGE_BYTES;
    load_a_.template copy<FIRST>(stage);
    load_b_.template copy<FIRST>(stage + Shape::A_RAW_BYTES);
    cp_async_commit();
    write_stage_ = next(write_stage_);
  }

  __device__ __forceinline__ void copy_first() {
    copy_next<true>();
#pragma unroll 1
    for (int stage = 1; stage < STAGES - 1; ++stage) copy_next();
  }

  /// Afterwards the oldest raw stage in flight has landed for all threads, and they have shifted
  /// the one before.
  __device__ __forceinline__ void await_raw_stage() {
    cp_async_wait<STAGES - 2>();
    __syncthreads();
  }

  __device__ __forceinline__ void shift_next() {
    const unsigned char* const from = raw_stages_ + read_stage_ * Shape::RAW_STAGE_BYTES;
    unsigned char* const to = stages_ + shifted_ * Shape::STAGE_BYTES;
    load_a_.shift(from, reinterpret_cast<T*>(to));
    load_b_.shift(from + Shape::A_RAW_BYTES, reinterpret_cast<T*>(to + Shape::A_BYTES));
    read_stage_ = next(read_stage_);
    shifted_ ^= 1;
  }

  unsigned char *stages_, *raw_stages_;
  UnalignedLoader<LayoutA, Shape::LOADER_THREADS> load_a_;
  UnalignedLoader<LayoutB, Shape::LOADER_THREADS> load_b_;
  int k_tiles_, write_stage_ = 0, read_stage_ = 0, shifted_ = 0;
};

}  // namespace smem::gemm::sm80::inline SMEM_BUILD
