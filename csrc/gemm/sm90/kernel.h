// The SM90 GEMM kernel: out = activation(alpha A B + beta C + bias), by TMA and wgmma. A is M x K
// and B is K x N, of 16-bit floats, each K-major or MN-major. For tf32, mainloop_tf32_rs.h replaces
// the mainloop and the stores.
//
// The kernel is persistent and warp-specialized. A block computes tiles of tile_m x tile_n, which
// tile_scheduler.h assigns to its cluster one after the other, or dynamic_scheduler.h in long
// products.
//
//   producer             one elected thread of one warp. It keeps the pipeline full by TMA, also
//                        across the ends of tiles. Beside two consumer warpgroups it has a
//                        warpgroup for itself, whose registers go to the consumers.
//   consumers            one or two warpgroups with 64 rows of the tile each. They issue wgmma on
//                        the full stages, and store the results.
//   cluster (optional)   cluster_m blocks, one below the other, use the same columns of B. Each
//                        loads a part of B and multicasts it to all.
//
// The pipeline is a ring of TILE.stages stages, with a full and an empty barrier per stage s:
//
//             +--> wait empty[s] --> expect bytes on full[s] --> TMA of A and B into stage s --+
//   producer  +------------------------------- s = s + 1 <------------------------------------+
//                     ^                                                      |
//                     | arrive: each consumer warp                           | bytes arrive
//                     |                                                      v
//   consumers   release s - 1 <-- wait for wgmma(s - 1) <-- issue wgmma(s) <-- wait full[s]
//
// wgmma is asynchronous: the group of stage s runs while stage s - 1 is released. The first 64
// columns of a tile are stored after its mainloop; the other columns stay in registers, rounded and
// packed, and are stored while the first wgmmas of the next tile run:
//
//   tile t      wgmma wgmma ... wgmma | epilogue, store columns 0-63
//   tile t + 1                          wgmma | store columns 64-255 of tile t | wgmma ...
//
// Bits: an accumulator adds its products from zero, 16 k at a time in ascending order, whatever the
// tile. So all tiles give the same bits; elements beyond K are loaded as zeros.
//
// What may be changed:
//   - Tile sizes, stages and clusters: in the table of tile_config.h alone.
//   - What the epilogue computes: in epilogue_op.h (and, for StoreMode::scalar, epilogue_scalar.h).
//   - The order of work tiles: in tile_scheduler.h.
// What must stay consistent:
//   - The order of k decides the bits. All kernels and reduce_split_k.cu share it.
//   - The arrivals of release_stage and the counts of init_barriers.
//   - Nothing may read or write the accumulators while a wgmma group runs, or ptxas serializes the
//     wgmmas (it warns about that).
//   - The registers of setmaxnreg: 128 * 24 + 256 * 240 threads' registers are within 64 K.
#pragma once

#include "device/pdl.h"
#include "device/prefetch_params.h"
#include "device/target.h"
#include "device/wgmma.h"
#include "gemm/sm90/epilogue_direct.h"
#include "gemm/sm90/epilogue_op.h"
#include "gemm/sm90/epilogue_scalar.h"
#include "gemm/sm90/pipeline.h"
#include "gemm/sm90/producer.h"

namespace smem::gemm::sm90::inline SMEM_BUILD {

/// What one block computes: run_producer and run_consumer are the two roles.
template <typename T, Major A_MAJOR, Major B_MAJOR, TileConfig TILE, EpilogueKind KIND>
struct CollectiveGemm {
  const GemmParams<T>& params;
  SharedStorage<TILE> shared;
  uint32_t rank = TILE.cluster_m > 1 ? block_rank_in_cluster() : 0;

  static constexpr int WARPGROUP_M = TILE.warpgroup_m();
  static constexpr int NUM_ACCUM = TILE.tile_n / 2;         ///< per thread
  static constexpr int WGMMAS_PER_K_TILE = ROW_BYTES / 32;  ///< one wgmma multiplies 32 bytes of K
  static constexpr int B_ROW_BYTES = stage_row_bytes(B_MAJOR, TILE.stage_n, sizeof(T));
  using Accum = float[NUM_ACCUM];
  /// Only kernels with all epilogues read params.store_mode; for the others KIND implies it.
  static constexpr bool IS_ANY = KIND == EpilogueKind::any;

  /// Called by consumers.
  template <typename Visit>
  __device__ __forceinline__ void for_each_work_tile(const Visit& visit) const {
    for_each_work_tile_of(
        WorkTileSequence<TILE.stages, TILE.cluster_m>(params.scheduler, shared.slots), visit);
  }
  __device__ __forceinline__ int first_row(const WorkTileInfo& work) const {
    return (work.row * TILE.cluster_m + rank) * TILE.tile_m;
  }
  __device__ __forceinline__ int first_col(const WorkTileInfo& work) const {
    return work.col * params.tile_n;
  }

  // The producer.

  using ProducerSequence = ProducerWorkTileSequence<TILE.stages, TILE.cluster_m>;

  /// Called by one thread.
  __device__ __forceinline__ void run_producer(const ProducerSequence& sequence) const {
    PipelineState<TILE.stages> state;
    for_each_work_tile_of(sequence, [&](const WorkTileInfo& work, uint32_t) {
      const int row = first_row(work), col = first_col(work);
      const int a_batch = params.a_batched ? work.batch : 0;
      const int b_batch = params.b_batched ? work.batch : 0;
      const OperandLoader<T, A_MAJOR, TILE.tile_m, TILE.cluster_m> a(params.a, params.a_extent,
                                                                     row);
      const OperandLoader<T, B_MAJOR, TILE.stage_n, TILE.cluster_m, TILE.cluster_m> b(
          params.b, params.b_extent, col, rank);
      const uint32_t bytes = TILE.k_tiles_per_stage * (a.bytes() + b.bytes());
#pragma unroll 1
      for (int k_tile = 0; k_tile < work.k_tiles; k_tile += TILE.k_tiles_per_stage, state.next()) {
        shared.empty[state.stage].wait(state.parity ^ 1);
        Barrier& full = shared.full[state.stage];
        full.arrive_and_expect_tx(bytes);
#pragma unroll
        for (int i = 0; i < TILE.k_tiles_per_stage; ++i) {
          const int k = (work.first_k_tile + k_tile + i) * TILE_K<T>;
          a.load(shared.a(state.stage, i), row, k, a_batch, full);
          b.load(shared.b(state.stage, i), col, k, b_batch, full);
        }
      }
    });
  }

  // The consumers: the mainloop.

  /// Waits for a stage and issues its wgmmas as one group. `first`: they overwrite the
  /// accumulators.
  __device__ __forceinline__ void issue_wgmmas(Accum& accum, uint32_t a_desc0, uint32_t b_desc0,
                                               int stage, uint32_t parity, bool first) const {
    const uint32_t offset = warp_uniform(stage * descriptor_units(TILE.stage_bytes()));
    const uint32_t a_desc = a_desc0 + offset, b_desc = b_desc0 + offset;
    shared.full[stage].wait(parity);
    warpgroup_arrive();
#pragma unroll
    for (int i = 0; i < TILE.k_tiles_per_stage; ++i) {
#pragma unroll
      for (int k = 0; k < WGMMAS_PER_K_TILE; ++k) {
        const uint32_t a_offset = descriptor_units(i * TILE.a_bytes()) + k * K16_STEP<A_MAJOR>;
        const uint32_t b_offset =
            descriptor_units(i * TILE.b_bytes()) + k * K16_STEP<B_MAJOR, B_ROW_BYTES>;
        wgmma<T, A_MAJOR, B_MAJOR, TILE.mma_n>(accum, tile_descriptor(a_desc + a_offset),
                                               tile_descriptor<B_ROW_BYTES>(b_desc + b_offset),
                                               !first || i + k > 0);
      }
    }
    warpgroup_commit_batch();
  }

  /// Whether the kernel can compute several accumulation intervals of a work tile.
  static constexpr bool HAS_INTERVALS = IS_ANY && TILE.fits_second_accumulator();

  /// Calls accumulate(k_tiles) for the accumulation intervals of a work tile and adds the results
  /// in order, as reduce_split_k.cu does if the intervals are split-K slices. If MAY_BE_ONE, a
  /// single interval is computed, too.
  template <bool MAY_BE_ONE, typename Accumulate>
  __device__ __forceinline__ void accumulate_intervals(Accum& accum, int k_tiles,
                                                       const Accumulate& accumulate) const {
    const bool are_several = !MAY_BE_ONE || k_tiles > params.accum_interval;
    Accum totals;
    if (are_several) {
      // -0 is the neutral element of addition; +0 would change a sum of -0.
#pragma unroll
      for (int i = 0; i < NUM_ACCUM; ++i) totals[i] = accum[i] = -0.0f;
    }
#pragma unroll 1
    for (int left = k_tiles;; left -= params.accum_interval) {
      // Also executed before the first interval, so that its code is in the instruction cache
      // when the results of an interval wait for it.
      if (are_several) {
#pragma unroll
        for (int i = 0; i < NUM_ACCUM; ++i) totals[i] += accum[i];
      }
      if (left <= 0) break;
      accumulate(min(left, params.accum_interval));
    }
    if (are_several) {
#pragma unroll
      for (int i = 0; i < NUM_ACCUM; ++i) accum[i] = totals[i];
    }
  }

  // The epilogue stores subtiles of 64 columns.
  static constexpr int SUBTILES = TILE.tile_n / STAGING_COLS;
  static constexpr int PACKED_PER_SUBTILE = STAGING_ROWS * STAGING_COLS / WARP / 2;
  using Packed = uint32_t[SUBTILES * PACKED_PER_SUBTILE];

  /// Called by a warpgroup.
  __device__ __forceinline__ void run_consumer() const {
    const int warpgroup = threadIdx.x / WARPGROUP, warp = threadIdx.x / WARP;
    unsigned char* const staging = shared.staging + warp * STAGING_BYTES;
    const uint32_t a_desc0 = warp_uniform(
        descriptor_at(shared_address(shared.a(0, 0)) + warpgroup * WARPGROUP_M * ROW_BYTES));
    const uint32_t b_desc0 = warp_uniform(descriptor_at(shared_address(shared.b(0, 0))));
    SubtileWriter<T> writer{params, staging};
    // The subtiles of the previous tile that are not stored yet.
    Packed packed;
    WarpTileCoord pending_coord{};
    bool is_pending = false;
    PipelineState<TILE.stages> state;
    for_each_work_tile([&](const WorkTileInfo& work, uint32_t) {
      Accum accum;
      const auto store_pending = [&] {
        if (is_pending) store_subtiles<1, SUBTILES>(packed, writer, pending_coord);
        is_pending = false;
      };
      const auto accumulate = [&](int k_tiles, const auto& meanwhile) {
        issue_wgmmas(accum, a_desc0, b_desc0, state.stage, state.parity, true);
        int previous = state.stage;
        state.next();
        meanwhile();  // the tensor cores are busy
#pragma unroll 1
        for (int k_tile = TILE.k_tiles_per_stage; k_tile < k_tiles;
             k_tile += TILE.k_tiles_per_stage, state.next()) {
          issue_wgmmas(accum, a_desc0, b_desc0, state.stage, state.parity, false);
          // One group of wgmmas stays in flight while the stage before is released.
          warpgroup_wait<1>();
          release_stage(shared, previous);
          previous = state.stage;
        }
        warpgroup_wait<0>();
        release_stage(shared, previous);
        warpgroup_fence_operand(accum);
      };
      if (HAS_INTERVALS && work.k_tiles > params.accum_interval) {
        store_pending();  // totals need its registers
        accumulate_intervals<false>(accum, work.k_tiles,
                                    [&](int k_tiles) { accumulate(k_tiles, [] {}); });
      } else {
        accumulate(work.k_tiles, store_pending);
      }

      if constexpr (KIND == EpilogueKind::splitk_partials) {
        store_partials(accum, coord_of(work), partials_of(work), params.partial_pitch);
      } else if (!IS_ANY || params.store_mode != StoreMode::scalar) {
        pending_coord = coord_of(work);
        is_pending = true;
        apply_epilogue(accum, writer, pending_coord, packed);
        // If 128 accumulators are in use, the registers cannot hold all subtiles any longer.
        store_subtiles<0, 1>(packed, writer, pending_coord);
      } else {
        store_scalar(accum, staging, coord_of(work), work);
      }
    });
    if (is_pending) store_subtiles<1, SUBTILES>(packed, writer, pending_coord);
    tma_store_wait_read<0>();
  }

  // The consumers: the epilogue.

  __device__ __forceinline__ float* partials_of(const WorkTileInfo& work) const {
    const int64_t slice = int64_t{work.batch} * params.scheduler.split_k_slices + work.k_slice;
    return params.partials + slice * params.epilogue.out.rows * params.partial_pitch;
  }

  /// Coordinates of the calling warp's 16 rows.
  __device__ __forceinline__ WarpTileCoord coord_of(const WorkTileInfo& work) const {
    const int warpgroup = threadIdx.x / WARPGROUP, warp = threadIdx.x / WARP % 4;
    const int rows = static_cast<int>(params.epilogue.out.rows);
    const int cols = static_cast<int>(params.epilogue.out.cols), col = first_col(work);
    return {first_row(work) + warpgroup * WARPGROUP_M + warp * STAGING_ROWS, col, rows,
            min(col + params.tile_n, cols), work.batch};
  }

  __device__ __forceinline__ static WarpTileCoord subtile_coord(WarpTileCoord coord, int subtile) {
    coord.col += subtile * STAGING_COLS;
    return coord;
  }

  /// Calls step(EpilogueOp of the tile, first accumulator of the subtile, subtile).
  template <typename Step>
  __device__ __forceinline__ void for_each_subtile(Accum& accum, const Step& step) const {
#pragma unroll
    for (int subtile = 0; subtile < SUBTILES; ++subtile) {
      step(EpilogueOp<T, NUM_ACCUM>{params.epilogue, accum}, subtile * 2 * PACKED_PER_SUBTILE,
           subtile);
    }
  }

  /// From accumulators to packed 16-bit elements, which take half the registers.
  __device__ __forceinline__ void apply_epilogue(Accum& accum, SubtileWriter<T>& writer,
                                                 const WarpTileCoord& coord, Packed& packed) const {
    const Epilogue<T>& epilogue = params.epilogue;
    const EpilogueOp<T, NUM_ACCUM> op{epilogue, accum};
    if (number_of(epilogue.alpha) != 1) op.multiply_by_alpha();
    if (epilogue.bias) op.add_bias(coord.col);
    if constexpr (IS_ANY) {
      if (epilogue.pre.data) store_preactivations(accum, writer, coord);
      switch (epilogue.activation) {
        case Activation::gelu:
          return op.template activate_and_round<Activation::gelu>(packed);
        case Activation::gelu_tanh:
          return op.template activate_and_round<Activation::gelu_tanh>(packed);
        case Activation::silu:
          return op.template activate_and_round<Activation::silu>(packed);
        default:
          break;
      }
    }
    if (epilogue.activation == Activation::relu) op.relu();
    for_each_subtile(accum, [&](const auto& f, int first, int subtile) {
      f.template round<PACKED_PER_SUBTILE>(first, packed + subtile * PACKED_PER_SUBTILE);
    });
  }

  __device__ __forceinline__ void store_preactivations(Accum& accum, SubtileWriter<T>& writer,
                                                       const WarpTileCoord& coord) const {
    const auto offsets = writer.stmatrix_offsets();
    for_each_subtile(accum, [&](const auto& f, int first, int subtile) {
      const WarpTileCoord at = subtile_coord(coord, subtile);
      uint32_t packed[PACKED_PER_SUBTILE];
      f.template round<PACKED_PER_SUBTILE>(first, packed);
      if (is_inside(at)) writer.store_tma(packed, 0, offsets, at, params.pre);
    });
  }

  __device__ __forceinline__ static bool is_inside(const WarpTileCoord& coord) {
    return coord.row < coord.end_row && coord.col < coord.end_col;
  }

  template <int FIRST, int END>
  __device__ __forceinline__ void store_subtiles(const Packed& packed, SubtileWriter<T>& writer,
                                                 const WarpTileCoord& coord) const {
    const auto offsets = writer.stmatrix_offsets();
    const bool stores_by_tma =
        KIND == EpilogueKind::tma || (IS_ANY && params.store_mode == StoreMode::tma);
    const DirectWriter<T> direct{params, writer.staging};
#pragma unroll
    for (int subtile = FIRST; subtile < END; ++subtile) {
      if (stores_by_tma) {
        const WarpTileCoord at = subtile_coord(coord, subtile);
        if (!is_inside(at)) continue;
        writer.store_tma(packed, subtile * PACKED_PER_SUBTILE, offsets, at, params.out);
      } else {
        direct.store(packed, subtile * PACKED_PER_SUBTILE, coord, subtile);
      }
    }
  }

  __device__ __forceinline__ void store_scalar(const Accum& accum, unsigned char* staging,
                                               const WarpTileCoord& coord,
                                               const WorkTileInfo& work) const {
    const ScalarWriter<T> writer(params, staging, work.batch);
    // The outer loop is rolled to keep the code short. Registers cannot be indexed dynamically, so
    // an unrolled inner loop selects the accumulators of the subtile.
#pragma unroll 1
    for (int subtile = 0; subtile < SUBTILES; ++subtile) {
      const WarpTileCoord at = subtile_coord(coord, subtile);
      if (!is_inside(at)) continue;
#pragma unroll
      for (int i = 0; i < SUBTILES; ++i) {
        if (i == subtile) writer.stage(accum, i * STAGING_COLS / 2);
      }
      __syncwarp();
      writer.store(at);
      __syncwarp();
    }
  }
};

/// The collective of a dtype; mainloop_tf32_rs.h specializes it for float.
template <typename T, Major A_MAJOR, Major B_MAJOR, TileConfig TILE, EpilogueKind KIND>
struct CollectiveFor {
  using Type = CollectiveGemm<T, A_MAJOR, B_MAJOR, TILE, KIND>;
};

/// The tile is given by its index because nvcc cannot generate the host stub of a kernel that has a
/// struct as a template argument.
template <typename T, Major A_MAJOR, Major B_MAJOR, int INDEX, EpilogueKind KIND>
__global__ void __launch_bounds__(launch_bound(TARGET_HAS_SM90A, TILES[INDEX].config.threads()),
                                  TILES[INDEX].config.min_blocks_per_sm)
    gemm_kernel(const __grid_constant__ GemmParams<T> params) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || !defined(__CUDACC__)
  constexpr TileConfig TILE = TILES[INDEX].config;
  const typename CollectiveFor<T, A_MAJOR, B_MAJOR, TILE, KIND>::Type collective{params};
  prefetch_param(params.scheduler);
  prefetch_param(params.epilogue);
  // The compiler must know that this is uniform in the warp, or it moves the descriptors to uniform
  // registers for every wgmma.
  const uint32_t warp = warp_uniform(threadIdx.x / WARP);
  constexpr int CONSUMER_WARPS = TILE.consumer_warpgroups() * 4;
  const bool is_producer = warp == CONSUMER_WARPS;
  typename decltype(collective)::ProducerSequence work_tiles(
      params.scheduler, collective.shared.slots, collective.rank);
  if (is_producer && elect_one()) {
    // The kernel before packs at most (launch.cu): it has not got this counter.
    work_tiles.begin();
    prefetch_tensor_map(params.a[0]);
    prefetch_tensor_map(params.b[0]);
    init_barriers(collective.shared);
  }
  // Three warpgroups start with 168 registers per thread; the two consumers need more.
  constexpr bool MOVES_REGISTERS = TILE.consumer_warpgroups() == 2;
  if (warp >= CONSUMER_WARPS) {
    sync_barrier_init<TILE>(is_producer, false);
    if constexpr (MOVES_REGISTERS) warpgroup_reg_dealloc<24>();
    if (is_producer && elect_one()) {
      wait_on_dependent_grids();  // a kernel before may have packed an operand
      collective.run_producer(work_tiles);
    }
  } else {
    sync_barrier_init<TILE>(false, true);
    if constexpr (MOVES_REGISTERS) warpgroup_reg_alloc<240>();
    collective.run_consumer();
  }
  // The barriers of a block must exist until the other blocks of the cluster have arrived on them.
  if constexpr (TILE.cluster_m > 1) {
    __syncwarp();
    cluster_sync();
  }
#endif
}

}  // namespace smem::gemm::sm90::inline SMEM_BUILD
