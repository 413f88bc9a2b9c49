// The mainloop of a work tile: copies k-tiles into the stages, and multiplies them.
//
// The copies of a k-tile are spread over the products of another one, in parts. All at once they
// would fill the queue of memory instructions, and the ldmatrix of the next step would wait behind
// them. With two parts:
//
//   step of a k-tile    0              1              2              3 (last)
//                                                                    wait for the next stage;
//                                                                    barrier
//   ldmatrix            step 1         step 2         step 3         step 0 of the next stage
//   copies                             part 1                        part 0 of the next k-tile
//   mma.sync            step 0         step 1         step 2         step 3
//
// Copies go to the stage that all warps finished before the last barrier, so one barrier per k-tile
// is enough.
#pragma once

#include "device/mbarrier.h"
#include "gemm/sm80/load_multistage.h"
#include "gemm/sm80/params.h"
#include "gemm/warp_mma.h"

namespace smem::gemm::sm80::inline SMEM_BUILD {

template <typename T, typename Shape, bool A_K_MAJOR, bool B_K_MAJOR>
class Mainloop {
  static constexpr int MMA_K = 2 * VECTOR_WIDTH<T>, TILE_K = Shape::template TILE_K<T>;
  static constexpr int K_STEPS = TILE_K / MMA_K;
  // For tf32 four parts are 2% slower than two. Through registers one: the vectors of a k-tile are
  // loaded at the end of one iteration and stored at the end of the next. Where both are in one
  // iteration, ptxas moves the stores, which wait for the loads, before the mma that should hide
  // them.
  static constexpr int PARTS = !TARGET_HAS_SM80                          ? 1
                               : sizeof(T) == 4 && Shape::COPY_PARTS > 2 ? 2
                                                                         : Shape::COPY_PARTS;
  static constexpr int STEPS_PER_PART = K_STEPS / PARTS;
  static constexpr int STAGES = Shape::STAGES;
  using LayoutA = SmemLayout<T, A_K_MAJOR, Shape::TILE_M, TILE_K>;
  using LayoutB = SmemLayout<T, B_K_MAJOR, Shape::TILE_N, TILE_K>;

 public:
  using Mma = WarpMma<Shape, LayoutA, LayoutB>;

  __device__ __forceinline__ Mainloop(unsigned char* shared, const MmaParams<T>& params,
                                      const WorkTileInfo& work)
      : shared_(shared), k_tiles_(work.k_tiles) {
    const int row0 = work.row * Shape::TILE_M, col0 = work.col * Shape::TILE_N;
    const int first_k = work.first_k_tile * TILE_K;
    const int valid_k = min(params.K - first_k, work.k_tiles * TILE_K);
    const int valid_rows = min(params.M - row0, Shape::TILE_M);
    const int valid_cols = min(params.N - col0, Shape::TILE_N);
    is_whole_ = valid_rows == Shape::TILE_M && valid_cols == Shape::TILE_N && valid_k % TILE_K == 0;
    load_a_.start(params.a.template at<A_K_MAJOR>(row0, first_k, work.batch), params.a.pitch,
                  valid_rows, valid_k);
    load_b_.start(params.b.template at<B_K_MAJOR>(col0, first_k, work.batch), params.b.pitch,
                  valid_cols, valid_k);
  }

  /// Adds the products of the work tile. Afterwards the stages are free for other uses.
  __device__ __forceinline__ void run(Mma& mma) {
    is_whole_ ? run_as<Edges::NONE>(mma) : run_as<Edges::ANY>(mma);
    cp_async_wait_all();  // the last copies, of zeros; what registers still hold is not stored
    __syncthreads();
  }

 private:
  static __device__ __forceinline__ int next(int stage) {
    return stage + 1 == STAGES ? 0 : stage + 1;
  }

  template <Edges EDGES>
  __device__ __forceinline__ void copy_part(int part) {
    unsigned char* const stage = shared_ + write_stage_ * Shape::STAGE_BYTES;
    load_a_.template copy<EDGES>(reinterpret_cast<T*>(stage), part);
    load_b_.template copy<EDGES>(reinterpret_cast<T*>(stage + Shape::A_BYTES), part);
    if (part < PARTS - 1) return;
    cp_async_commit();
    load_a_.advance();
    load_b_.advance();
    write_stage_ = next(write_stage_);
  }

  /// Afterwards the oldest stage in flight has landed for all threads.
  __device__ __forceinline__ void await_stage() {
    load_a_.finish();
    load_b_.finish();
    cp_async_wait<STAGES - 2>();
    __syncthreads();
  }

  template <Edges EDGES>
  __device__ __forceinline__ void run_as(Mma& mma) {
#pragma unroll 1
    for (int stage = 0; stage < STAGES - 1; ++stage) {
#pragma unroll
      for (int part = 0; part < PARTS; ++part) copy_part<EDGES>(part);
    }
    typename Mma::Fragments fragments[2];
    const unsigned stages = shared_address(shared_);
    int read_stage = 0;
    await_stage();
    mma.read(fragments[0], stages, 0);
    copy_part<EDGES>(0);
#pragma unroll 1
    for (int k_tile = 0; k_tile < k_tiles_; ++k_tile) {
#pragma unroll
      for (int step = 0; step < K_STEPS; ++step) {
        const bool is_last = step == K_STEPS - 1;
        if (is_last) {
          await_stage();
          read_stage = next(read_stage);
        }
        mma.read(fragments[1 - step % 2], stages + read_stage * Shape::STAGE_BYTES,
                 is_last ? 0 : (step + 1) * MMA_K);
        if ((step + 1) % STEPS_PER_PART == 0) {
          copy_part<EDGES>((step + 1) / STEPS_PER_PART % PARTS);
        }
        mma.multiply(fragments[step % 2]);
      }
    }
  }

  unsigned char* shared_;
  MultistageLoader<LayoutA, Shape::THREADS, PARTS> load_a_;
  MultistageLoader<LayoutB, Shape::THREADS, PARTS> load_b_;
  int k_tiles_, write_stage_ = 0;
  bool is_whole_;  ///< the tile lies within out and has whole k-tiles
};

}  // namespace smem::gemm::sm80::inline SMEM_BUILD
