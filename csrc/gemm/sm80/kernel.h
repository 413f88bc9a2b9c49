// The mma kernel: a production GEMM on the tensor cores of sm_80 and newer, by mma.sync.
//
// All warps of a block have the same role. Each copies its share of every stage, and multiplies its
// own part of the tile:
//
//   global memory --cp.async--> stages of swizzled shared memory     stages - 1 k-tiles ahead
//                 --ldmatrix--> two sets of fragments in registers   one mma step ahead
//                 --mma.sync--> accumulators in registers
//
// The copies of a k-tile are spread over the products of another one. All at once they would fill
// the queue of memory instructions, and the ldmatrix of the next step would wait behind them.
//
//   step of a k-tile      0          1          2          3 (last)
//   copies                part 0     part 1     part 2     wait for the next stage; barrier
//   ldmatrix              step 1     step 2     step 3     step 0 of the next stage
//   mma.sync              step 0     step 1     step 2     step 3
//
// The stage that is filled is the one that all warps finished before the last barrier, so one
// barrier per k-tile is enough. Each accumulator is one chain of mma with K ascending, from zero,
// over one accumulation interval (gemm/accum_interval.h). Every tile therefore gives the same bits,
// at every M.
//
// What may be changed: the rows of TILES, the number of parts, and the epilogue. The order of the
// mma instructions along K decides the bits.
#pragma once

#include "device/mbarrier.h"
#include "device/target.h"
#include "gemm/sm80/epilogue.h"
#include "gemm/sm80/load_multistage.h"
#include "gemm/sm80/params.h"
#include "gemm/sm80/tile_config.h"

namespace smem::gemm::sm80::inline SMEM_BUILD {

/// A row of TILES as constants, which a kernel may use.
template <int TILE>
struct TileShape {
  static constexpr TileConfig C = TILES[TILE].config;
  static constexpr int TILE_M = C.tile_m, TILE_N = C.tile_n, STAGES = C.stages;
  static constexpr int THREADS = C.threads(), MIN_BLOCKS_PER_SM = C.min_blocks_per_sm;
  static constexpr int WARPS_N = C.warps_n, WARP_M = C.warp_m(), WARP_N = C.warp_n();
  static constexpr int A_BYTES = C.a_bytes(), STAGE_BYTES = C.stage_bytes();
  static constexpr int STAGED_FRAGMENTS = C.staged_fragments();
  template <typename T>
  static constexpr int TILE_K = C.tile_k(sizeof(T));
};

template <typename T, int TILE, bool A_K_MAJOR, bool B_K_MAJOR>
__global__ void __launch_bounds__(launch_bound(TARGET_HAS_SM80, TileShape<TILE>::THREADS),
                                  TileShape<TILE>::MIN_BLOCKS_PER_SM)
    mma_kernel(const __grid_constant__ MmaParams params) {
#if !defined(__CUDACC__) || __CUDA_ARCH__ >= 800
  using Shape = TileShape<TILE>;
  constexpr int VEC = VECTOR_WIDTH<T>, MMA_K = 2 * VEC;  // values of k
  constexpr int TILE_K = Shape::template TILE_K<T>, K_STEPS = TILE_K / MMA_K;
  constexpr int PARTS = K_STEPS - 1;  // no copies in the last step, which waits
  using LayoutA = SmemLayout<T, A_K_MAJOR, Shape::TILE_M, TILE_K>;
  using LayoutB = SmemLayout<T, B_K_MAJOR, Shape::TILE_N, TILE_K>;

  const Problem& problem = params.problem;
  const WorkTileInfo work = work_tile_at(params.scheduler, blockIdx.x);
  const BlockTile<T> block(problem, int64_t{work.row} * Shape::TILE_M,
                           int64_t{work.col} * Shape::TILE_N, static_cast<unsigned>(work.batch));
  const int64_t first_k = int64_t{work.first_k_tile} * TILE_K;
  const int valid_k = static_cast<int>(min(problem.K - first_k, int64_t{work.k_tiles} * TILE_K));
  const auto valid_rows = static_cast<int>(min(problem.M - block.row0, int64_t{Shape::TILE_M}));
  const auto valid_cols = static_cast<int>(min(problem.N - block.col0, int64_t{Shape::TILE_N}));
  MultistageLoader<LayoutA, Shape::THREADS> load_a(
      block.A.at(block.row0, first_k), A_K_MAJOR ? block.A.row_stride : block.A.col_stride,
      valid_rows, valid_k);
  MultistageLoader<LayoutB, Shape::THREADS> load_b(
      block.B.at(first_k, block.col0), B_K_MAJOR ? block.B.col_stride : block.B.row_stride,
      valid_cols, valid_k);

  unsigned char* const shared = dynamic_shared<unsigned char>();
  const auto next = [](int stage) { return stage + 1 == Shape::STAGES ? 0 : stage + 1; };
  int write_stage = 0;
  const auto copy_part = [&](int part) {
    unsigned char* const stage = shared + write_stage * Shape::STAGE_BYTES;
    load_a.template copy<PARTS>(reinterpret_cast<T*>(stage), part);
    load_b.template copy<PARTS>(reinterpret_cast<T*>(stage + Shape::A_BYTES), part);
    if (part < PARTS - 1) return;
    cp_async_commit();
    load_a.advance();
    load_b.advance();
    write_stage = next(write_stage);
  };
  // Afterwards the oldest stage in flight has landed for all threads.
  const auto await_stage = [] {
    cp_async_wait<Shape::STAGES - 2>();
    __syncthreads();
  };

#pragma unroll 1
  for (int stage = 0; stage < Shape::STAGES - 1; ++stage) {
#pragma unroll
    for (int part = 0; part < PARTS; ++part) copy_part(part);
  }
  WarpMma<Shape, LayoutA, LayoutB> mma;
  typename decltype(mma)::Fragments fragments[2];
  await_stage();
  const unsigned stages = shared_address(shared);
  int read_stage = 0;
  mma.read(fragments[0], stages, 0);
#pragma unroll 1
  for (int k_tile = 0; k_tile < work.k_tiles; ++k_tile) {
#pragma unroll
    for (int step = 0; step < K_STEPS; ++step) {
      const bool is_last = step == K_STEPS - 1;
      if (is_last) {
        await_stage();
        read_stage = next(read_stage);
      }
      mma.read(fragments[1 - step % 2], stages + read_stage * Shape::STAGE_BYTES,
               is_last ? 0 : (step + 1) * MMA_K);
      if (!is_last) copy_part(step);
      mma.multiply(fragments[step % 2]);
    }
  }
  cp_async_wait<0>();  // the last copies, of zeros, must not overwrite what the stages become
  if (params.partials) {
    const int64_t slice = int64_t{work.batch} * params.scheduler.split_k_slices + work.k_slice;
    const int64_t pitch = params.partial_pitch;
    store_partials(mma, params.partials + (slice * problem.M + block.row0) * pitch + block.col0,
                   pitch, valid_rows, valid_cols);
  } else {
    __syncthreads();
    store_tile<Shape::STAGED_FRAGMENTS, T>(mma, block, reinterpret_cast<Accumulator<T>*>(shared));
  }
#endif
}

}  // namespace smem::gemm::sm80::inline SMEM_BUILD
