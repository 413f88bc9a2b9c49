// The parts of CollectiveGemm (kernel.h) that differ for tf32: float32 operands, which TMA rounds
// to tf32 as it loads them, and float32 results.
//
// From shared memory, wgmma takes K-major tf32 operands only. Therefore:
//   - An MN-major A goes through registers (the "rs" form of wgmma): the four warps of a warpgroup
//     load the fragments of a stage while the wgmmas of the previous stage run.
//   - An MN-major B is the A of the transposed problem. So rows of out may be columns here: the
//     kernel computes an X x Y matrix, with A's rows x and B's columns y.
//
// A panel of an MN-major A in shared memory, 32 x and one k per row of 128 bytes:
//
//   k = 0   x 0-3 | x 4-7 | x 8-11 | ... | x 28-31      vectors of 16 bytes; TMA stores vector v
//   k = 1   x 0-3 | x 4-7 | ...                         of row k at v ^ (k % 8)
//   ...
//
// A lane reads its two adjacent x by a load of 8 bytes. A load of lanes 0 to 15, which the banks
// serve together, touches four k and 8 x. For it to be free of conflicts these 8 x are two vectors
// that are four apart; two adjacent vectors would meet each other's swizzled positions.
#pragma once

#include "gemm/sm90/epilogue_tf32.h"
#include "gemm/sm90/kernel.h"

namespace smem::gemm::sm90::inline SMEM_BUILD {

template <Major A_MAJOR, TileConfig TILE, EpilogueKind KIND>
struct CollectiveGemmTf32 : CollectiveGemm<float, A_MAJOR, Major::K, TILE, KIND> {
  using Base = CollectiveGemm<float, A_MAJOR, Major::K, TILE, KIND>;
  using Base::IS_ANY;
  using Base::NUM_ACCUM;
  using Base::params;
  using Base::shared;
  using Base::WARPGROUP_M;
  using Base::WGMMAS_PER_K_TILE;
  using typename Base::Accum;

  static constexpr bool A_FROM_REGISTERS = A_MAJOR == Major::MN;
  using Fragments = uint32_t[TILE.k_tiles_per_stage * WGMMAS_PER_K_TILE][4];  ///< A of a stage

  /// The rows of A that belong to a lane.
  struct LaneRows {
    int x, next_x;
    BoxRows boxes;
    const unsigned char* smem;  ///< of x in the first stage, for k = lane % 4
  };
  __device__ __forceinline__ LaneRows lane_rows() const {
    const int warp = threadIdx.x / WARP, group = threadIdx.x % WARP / 4, k = threadIdx.x % 4;
    if constexpr (!A_FROM_REGISTERS) {
      const int first = warp * 16, x = first + group;
      return {x, x + 8, {first, first + 8, group, group + 8}, nullptr};
    } else {
      // Of a panel's eight vectors of four x, even warps take 0, 1, 4 and 5, odd warps the others.
      const int panel = warp / 2, half = group / 2 % 2, vec = warp % 2 * 2 + group / 4 + half * 4;
      const int first = panel * TILE_K<float> + warp % 2 * 8;
      const int x = panel * TILE_K<float> + vec * 4 + group % 2 * 2;
      const int row = half * 8 + group / 4 * 4 + group % 2 * 2;
      return {x,
              x + 1,
              {first, first + 16, row, row + 1},
              shared.a(0, 0) + (panel * TILE_K<float> + k) * ROW_BYTES + (vec ^ k) * 16 +
                  group % 2 * 8};
    }
  }

  __device__ __forceinline__ void load_fragments(Fragments& fragments,
                                                 const unsigned char* smem) const {
    const auto* const low = smem;
    // Four k further, the swizzle moves a vector by four.
    const auto* const high =
        reinterpret_cast<const unsigned char*>(reinterpret_cast<uintptr_t>(smem) ^ 64) +
        4 * ROW_BYTES;
#pragma unroll
    for (int i = 0; i < TILE.k_tiles_per_stage * WGMMAS_PER_K_TILE; ++i) {
      const int from =
          i / WGMMAS_PER_K_TILE * TILE.a_bytes() + i % WGMMAS_PER_K_TILE * 8 * ROW_BYTES;
      const uint2 first = *reinterpret_cast<const uint2*>(low + from);
      const uint2 second = *reinterpret_cast<const uint2*>(high + from);
      fragments[i][0] = first.x;
      fragments[i][1] = first.y;
      fragments[i][2] = second.x;
      fragments[i][3] = second.y;
    }
#pragma unroll
    for (auto& fragment : fragments) warpgroup_fence_operand(fragment);
  }

  /// Issues the wgmmas of a stage as one group. `first`: they overwrite the accumulators.
  __device__ __forceinline__ void issue_wgmmas(Accum& accum, const Fragments& fragments,
                                               uint32_t a_desc, uint32_t b_desc, bool first) const {
    warpgroup_arrive();
#pragma unroll
    for (int i = 0; i < TILE.k_tiles_per_stage * WGMMAS_PER_K_TILE; ++i) {
      const int k_tile = i / WGMMAS_PER_K_TILE;
      const uint32_t offset = i % WGMMAS_PER_K_TILE * K16_STEP<Major::K>;
      const uint64_t b =
          tile_descriptor(b_desc + descriptor_units(k_tile * TILE.b_bytes()) + offset);
      if constexpr (A_FROM_REGISTERS) {
        wgmma_rs<float, TILE.tile_n>(accum, fragments[i], b, !first || i > 0);
      } else {
        const uint64_t a =
            tile_descriptor(a_desc + descriptor_units(k_tile * TILE.a_bytes()) + offset);
        wgmma<float, Major::K, Major::K, TILE.mma_n>(accum, a, b, !first || i > 0);
      }
    }
    warpgroup_commit_batch();
  }

  /// Called by a warpgroup.
  __device__ __forceinline__ void run_consumer() const {
    const int warpgroup = threadIdx.x / WARPGROUP;
    const uint32_t a_desc0 = warp_uniform(
        descriptor_at(shared_address(shared.a(0, 0)) + warpgroup * WARPGROUP_M * ROW_BYTES));
    const uint32_t b_desc0 = warp_uniform(descriptor_at(shared_address(shared.b(0, 0))));
    const LaneRows rows = lane_rows();
    PipelineState<TILE.stages> state;
    this->for_each_work_tile([&](const WorkTileInfo& work, uint32_t) {
      Accum accum;
      Fragments fragments[2];
      int previous = 0;
      // One group of wgmmas stays in flight while the fragments of the next stage are loaded, and
      // until the stage before is released.
      const auto process_stage = [&](Fragments& next, bool first) {
        const uint32_t offset = warp_uniform(state.stage * descriptor_units(TILE.stage_bytes()));
        shared.full[state.stage].wait(state.parity);
        if constexpr (A_FROM_REGISTERS) {
          load_fragments(next, rows.smem + state.stage * TILE.stage_bytes());
        }
        issue_wgmmas(accum, next, a_desc0 + offset, b_desc0 + offset, first);
        if (!first) {
          warpgroup_wait<1>();
          release_stage(shared, previous);
        }
        previous = state.stage;
        state.next();
      };
      const auto accumulate = [&](int k_tiles) {
        process_stage(fragments[0], true);
        int stages_left = (k_tiles - 1) / TILE.k_tiles_per_stage;
#pragma unroll 1
        for (; stages_left >= 2; stages_left -= 2) {
          process_stage(fragments[1], false);
          process_stage(fragments[0], false);
        }
        if (stages_left > 0) process_stage(fragments[1], false);
        warpgroup_wait<0>();
        release_stage(shared, previous);
        warpgroup_fence_operand(accum);
      };
      if constexpr (Base::HAS_INTERVALS) {
        // With a loop of its own for a single interval, ptxas runs out of registers for some tiles
        // and serializes the wgmmas.
        this->template accumulate_intervals<true>(accum, work.k_tiles, accumulate);
      } else {
        accumulate(work.k_tiles);
      }
      store(accum, rows, work);
    });
    tma_store_wait_read<0>();
  }

  __device__ __forceinline__ void store(Accum& accum, const LaneRows& rows,
                                        const WorkTileInfo& work) const {
    const auto& out = params.epilogue.out;
    const bool transposed = A_FROM_REGISTERS && params.transposed;
    const int first_x = this->first_row(work), first_y = this->first_col(work);
    const auto end_x = static_cast<int>(transposed ? out.cols : out.rows);
    const auto end_y = static_cast<int>(transposed ? out.rows : out.cols);
    const LaneCoord coord{first_x + rows.x, first_x + rows.next_x,
                          first_y + static_cast<int>(threadIdx.x % 4 * 2), end_x,
                          min(first_y + params.tile_n, end_y)};
    unsigned char* const staging = shared.staging + threadIdx.x / WARP * STAGING_BYTES;
    const BoxRows boxes{first_x + rows.boxes.first_x, first_x + rows.boxes.second_x,
                        rows.boxes.smem_row, rows.boxes.next_smem_row};
    if (KIND == EpilogueKind::tma || (IS_ANY && params.store_mode == StoreMode::tma)) {
      Tf32Writer<NUM_ACCUM>{params.epilogue, staging, false}.store_tma(accum, coord, boxes,
                                                                       params.out, work.batch);
      return;
    }
    Epilogue<float> epilogue{};
    if constexpr (KIND == EpilogueKind::splitk_partials) {
      epilogue.out = {this->partials_of(work), out.rows, out.cols, params.partial_pitch, 1};
      epilogue.alpha = 1;
    } else {
      epilogue = epilogue_at_batch(params.epilogue, params.strides, work.batch);
    }
    const Tf32Writer<NUM_ACCUM> writer{epilogue, staging, transposed};
    if (!IS_ANY || params.store_mode == StoreMode::direct) {
      writer.store_direct(accum, coord, boxes, {first_y, params.tile_n, end_y, params.overlaps});
    } else {
      writer.store_scalar(accum, coord);
    }
  }
};

template <Major A_MAJOR, Major B_MAJOR, TileConfig TILE, EpilogueKind KIND>
struct CollectiveFor<float, A_MAJOR, B_MAJOR, TILE, KIND> {
  using Type = CollectiveGemmTf32<A_MAJOR, TILE, KIND>;
};

}  // namespace smem::gemm::sm90::inline SMEM_BUILD
