// The mma kernel: a production GEMM on the tensor cores of sm_75 and newer, by mma.sync.
//
// A warp copies its share of every stage, and multiplies its own part of the tile; some tiles of
// unaligned operands have warps that only copy and shift:
//
//   global memory --cp.async--> stages of swizzled shared memory     stages - 1 k-tiles ahead
//                 --ldmatrix--> two sets of fragments in registers   one mma step ahead
//                 --mma.sync--> accumulators in registers
//                 --epilogue--> staged in shared memory, then out
//
// Tiles of unaligned operands add a step: rows land as they lie in memory, and are shifted into
// swizzled stages (mainloop_unaligned.h). Floats need no shift, so their fragments are read where
// they land (mainloop_unaligned_tf32.h). Tiles for narrow and small products have no stages: their
// warps load fragments by ld.global (mainloop_ldg.h).
//
// sm_75 multiplies float16 only and has no cp.async: there two stages are filled through registers
// (load_multistage.h).
//
// Each accumulator is one chain of mma with K ascending, from zero, over one accumulation interval
// (gemm/accum_interval.h). Every tile therefore gives the same bits, at every M.
//
// What may be changed: the rows of TILES, the number of parts of the copies, and the epilogue. The
// order of the mma instructions along K decides the bits.
#pragma once

#include "device/pdl.h"
#include "device/target.h"
#include "gemm/sm80/epilogue.h"
#include "gemm/sm80/mainloop.h"
#include "gemm/sm80/mainloop_ldg.h"
#include "gemm/sm80/mainloop_unaligned.h"
#include "gemm/sm80/mainloop_unaligned_tf32.h"
#include "gemm/sm80/tile_config.h"

namespace smem::gemm::sm80::inline SMEM_BUILD {

/// A row of TILES as constants, which a kernel may use.
template <int TILE>
struct TileShape {
  static constexpr TileConfig C = tile_config(TILE, TARGET_HAS_SM80 ? 80 : 75);
  static constexpr int TILE_M = C.tile_m, TILE_N = C.tile_n, STAGES = C.stages;
  static constexpr int THREADS = C.threads(), MIN_BLOCKS_PER_SM = C.min_blocks_per_sm;
  static constexpr int MMA_THREADS = C.mma_threads(), LOADER_THREADS = C.loader_threads();
  static constexpr bool HAS_LOADERS = C.loader_warps > 0;
  static constexpr int COPY_PARTS = C.copy_parts;
  static constexpr int WARPS_N = C.warps_n, WARP_M = C.warp_m(), WARP_N = C.warp_n();
  static constexpr int A_BYTES = C.a_bytes(), STAGE_BYTES = C.stage_bytes();
  static constexpr int A_RAW_BYTES = C.a_raw_bytes(), RAW_STAGE_BYTES = C.raw_stage_bytes();
  static constexpr int RAW_STAGES_OFFSET = 2 * STAGE_BYTES;
  template <typename T>
  static constexpr int TILE_K = C.tile_k(sizeof(T));
  template <typename T>
  static constexpr int STAGED_FRAGMENTS = C.staged_fragments(sizeof(T));

  /// What this thread does. Without loader warps it does both.
  __device__ __forceinline__ static bool multiplies() {
    return !HAS_LOADERS || threadIdx.x < MMA_THREADS;
  }
  __device__ __forceinline__ static bool loads() { return !HAS_LOADERS || !multiplies(); }
};

/// Whether the target of this compilation has the instructions of a kernel.
template <typename T, int TILE>
constexpr bool TARGET_HAS_MMA =
    TARGET_HAS_SM80 || (std::is_same_v<T, half> && TILES[TILE].is_for_sm75);

template <typename T, typename Shape, bool A_K_MAJOR, bool B_K_MAJOR>
using MainloopOf =
    std::conditional_t<Shape::C.load == LoadMode::multistage,
                       Mainloop<T, Shape, A_K_MAJOR, B_K_MAJOR>, LdgMainloop<T, Shape>>;

template <typename T, typename Shape, bool A_K_MAJOR, bool B_K_MAJOR>
using UnalignedMainloopOf =
    std::conditional_t<sizeof(T) == 4, UnalignedTf32Mainloop<T, Shape, A_K_MAJOR, B_K_MAJOR>,
                       UnalignedMainloop<T, Shape, A_K_MAJOR, B_K_MAJOR>>;

template <typename T, int TILE, bool A_K_MAJOR, bool B_K_MAJOR>
__global__ void __launch_bounds__(launch_bound(TARGET_HAS_MMA<T, TILE>, TileShape<TILE>::THREADS),
                                  TileShape<TILE>::MIN_BLOCKS_PER_SM)
    mma_kernel(const __grid_constant__ MmaParams<T> params) {
  if constexpr (TARGET_HAS_MMA<T, TILE>) {
    using Shape = TileShape<TILE>;
    unsigned char* const shared = dynamic_shared<unsigned char>();
    wait_on_dependent_grids();
    if constexpr (Shape::C.load == LoadMode::unaligned) {
      UnalignedMainloopOf<T, Shape, A_K_MAJOR, B_K_MAJOR>::run(
          shared, params, [&](auto& mma, const WorkTileInfo& work, unsigned char* staging) {
            store_work_tile<T, Shape>(mma, params, work, staging);
          });
    } else {
      using Loop = MainloopOf<T, Shape, A_K_MAJOR, B_K_MAJOR>;
      const WorkTileInfo work = work_tile_at(params.scheduler, blockIdx.x);
      Loop loop(shared, params, work);
      typename Loop::Mma mma;
      loop.run(mma);
      store_work_tile<T, Shape>(mma, params, work, shared);
    }
  }
}

}  // namespace smem::gemm::sm80::inline SMEM_BUILD
