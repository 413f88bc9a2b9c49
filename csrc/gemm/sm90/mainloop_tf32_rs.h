// The part of kernel.h's worker that differs where operands are floats, multiplied as tf32. The
// TMA rounds them to tf32 as it loads them.
//
// From shared memory wgmma takes floats along K alone. An A that lies along M comes to it through
// registers instead, which the four warps of a warpgroup fill while the products of the stage
// before are made; a B that lies along N is the A of the transposed product. So in a kernel, rows
// of out may be columns: it computes sums (x, y) of an A that has rows x and a B that has columns
// y.
//
// In shared memory 32 x of one k are a row of 128 bytes, and its 16-byte pieces are swizzled by k.
// A lane reads the two x of its rows by 8 bytes. Lanes 0 to 15, which the banks serve together, are
// at four k and 8 x: two pieces that lie four apart, or the swizzle of one k would meet another's.
#pragma once

#include "gemm/sm90/kernel.h"
#include "gemm/sm90/epilogue_tf32.h"

namespace smem::gemm::sm90 {
inline namespace SMEM_BUILD {

template <Major A_MAJOR, Tile TILE, Exit EXIT>
struct FloatWorker : Worker<float, A_MAJOR, Major::K, TILE, EXIT> {
  using Base = Worker<float, A_MAJOR, Major::K, TILE, EXIT>;
  using Base::args;
  using Base::PRODUCTS;
  using Base::shared;
  using Base::SUMS;
  using Base::WARPGROUP_ROWS;

  static constexpr bool FROM_REGISTERS = A_MAJOR == Major::MN;
  using typename Base::Sums;
  using Fragments = uint32_t[TILE.steps * PRODUCTS][4];  ///< of a stage's A

  /// Where a lane finds its rows of A.
  struct Rows {
    int x, next_x;
    BoxedRows boxed;
    const unsigned char* at;  ///< in the first stage, for k = lane % 4
  };
  __device__ __forceinline__ Rows rows_of_lane() const {
    const int warp = threadIdx.x / WARP, group = threadIdx.x % WARP / 4, k = threadIdx.x % 4;
    if constexpr (!FROM_REGISTERS) {
      const int first = warp * 16, x = first + group;
      return {x, x + 8, {first, first + 8, group, group + 8}, nullptr};
    } else {
      // Pieces of four x: 0, 1, 4 and 5 of a panel's are one warp's, 2, 3, 6 and 7 the next one's.
      const int panel = warp / 2, half = group / 2 % 2, piece = warp % 2 * 2 + group / 4 + half * 4;
      const int first = panel * STEP_K<float> + warp % 2 * 8;
      const int x = panel * STEP_K<float> + piece * 4 + group % 2 * 2;
      const int row = half * 8 + group / 4 * 4 + group % 2 * 2;
      return {x,
              x + 1,
              {first, first + 16, row, row + 1},
              shared.a(0, 0) + (panel * STEP_K<float> + k) * ROW_BYTES + (piece ^ k) * 16 +
                  group % 2 * 8};
    }
  }

  __device__ __forceinline__ void read(Fragments& fragments, const unsigned char* at) const {
    const auto* const low = at;
    // Four k on, the swizzle moves a piece by four.
    const auto* const high =
        reinterpret_cast<const unsigned char*>(reinterpret_cast<uintptr_t>(at) ^ 64) +
        4 * ROW_BYTES;
#pragma unroll
    for (int i = 0; i < TILE.steps * PRODUCTS; ++i) {
      const int from = i / PRODUCTS * TILE.a_bytes() + i % PRODUCTS * 8 * ROW_BYTES;
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

  /// Begins to add a stage's products.
  __device__ __forceinline__ void multiply(Sums& sums, const Fragments& fragments, uint32_t a,
                                           uint32_t b, bool first) const {
    warpgroup_arrive();
#pragma unroll
    for (int i = 0; i < TILE.steps * PRODUCTS; ++i) {
      const int step = i / PRODUCTS;
      const uint32_t moved = i % PRODUCTS * K16_STEP<Major::K>;
      const uint64_t b_at = tile_descriptor(b + descriptor_units(step * TILE.b_bytes()) + moved);
      if constexpr (FROM_REGISTERS) {
        wgmma_rs<TILE.cols>(sums, fragments[i], b_at, !first || i > 0);
      } else {
        const uint64_t a_at = tile_descriptor(a + descriptor_units(step * TILE.a_bytes()) + moved);
        wgmma<float, Major::K, Major::K, TILE.cols>(sums, a_at, b_at, !first || i > 0);
      }
    }
    warpgroup_commit_batch();
  }

  /// By a warpgroup.
  __device__ __forceinline__ void compute() const {
    const int warpgroup = threadIdx.x / WARPGROUP;
    const uint32_t a0 = warp_uniform(
        descriptor_at(shared_address(shared.a(0, 0)) + warpgroup * WARPGROUP_ROWS * ROW_BYTES));
    const uint32_t b0 = warp_uniform(descriptor_at(shared_address(shared.b(0, 0))));
    const Rows rows = rows_of_lane();
    Turn<TILE.stages> turn;
    this->for_each_piece([&](const Piece& piece) {
      Sums sums;
      Fragments fragments[2];
      int previous = 0;
      // One group of products keeps running while the stage before is given back.
      const auto add_stage = [&](Fragments& next, bool first) {
        const uint32_t moved = warp_uniform(turn.stage * descriptor_units(TILE.stage_bytes()));
        shared.full[turn.stage].wait(turn.parity);
        if constexpr (FROM_REGISTERS) read(next, rows.at + turn.stage * TILE.stage_bytes());
        multiply(sums, next, a0 + moved, b0 + moved, first);
        if (!first) {
          warpgroup_wait<1>();
          release_stage(shared, previous);
        }
        previous = turn.stage;
        turn.next();
      };
      this->add_chunks(sums, piece.steps, [&](int steps) {
        add_stage(fragments[0], true);
        int left = (steps - 1) / TILE.steps;
#pragma unroll 1
        for (; left >= 2; left -= 2) {
          add_stage(fragments[1], false);
          add_stage(fragments[0], false);
        }
        if (left > 0) add_stage(fragments[1], false);
        warpgroup_wait<0>();
        release_stage(shared, previous);
        warpgroup_fence_operand(sums);
      });
      write(sums, rows, piece);
    });
    tma_store_wait_read<0>();
  }

  __device__ __forceinline__ void write(Sums& sums, const Rows& rows, const Piece& piece) const {
    const auto& whole = args.epilogue.out;
    const bool turned = FROM_REGISTERS && args.turned;
    const int first_x = this->first_row(piece), first_y = this->first_col(piece);
    const auto end_x = static_cast<int>(turned ? whole.cols : whole.rows);
    const auto end_y = static_cast<int>(turned ? whole.rows : whole.cols);
    const Place place{first_x + rows.x, first_x + rows.next_x,
                      first_y + static_cast<int>(threadIdx.x % 4 * 2), end_x,
                      min(first_y + args.tile_cols, end_y)};
    unsigned char* const staging = shared.staging + threadIdx.x / WARP * STAGING_BYTES;
    if (EXIT == Exit::boxes || (EXIT == Exit::any && args.output == Output::boxes)) {
      const BoxedRows& boxed = rows.boxed;
      FloatWriter<SUMS>{args.epilogue, staging, false}.write_boxes(
          sums, place,
          {first_x + boxed.first_x, first_x + boxed.second_x, boxed.row, boxed.next_row}, args.out,
          piece.batch);
      return;
    }
    Epilogue<float> epilogue{};
    if constexpr (EXIT == Exit::partials) {
      epilogue.out = {this->partials_of(piece), whole.rows, whole.cols, args.partial_pitch, 1};
      epilogue.alpha = 1;
    } else {
      epilogue = epilogue_of_member(args.epilogue, args.strides, piece.batch);
    }
    const FloatWriter<SUMS> writer{epilogue, staging, turned};
    if (EXIT != Exit::any || args.output == Output::rows) {
      writer.write_rows(sums, place);
    } else {
      writer.write_any(sums, place);
    }
  }
};

template <Major A_MAJOR, Major B_MAJOR, Tile TILE, Exit EXIT>
struct WorkerOf<float, A_MAJOR, B_MAJOR, TILE, EXIT> {
  using Type = FloatWorker<A_MAJOR, TILE, EXIT>;
};

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::sm90
