// GEMM on Hopper's tensor cores. One warp has TMA fill stages of shared memory, one or
// two warpgroups multiply what has come, and each block goes on to the next tile while the copy
// engine already loads it.
//
// Bits: an accumulator adds its products from zero, 16 k at a time in ascending order, whatever the
// tile, so all tiles agree; what lies beyond K comes as zeros.
#pragma once

#include "device/prefetch_params.h"
#include "device/pdl.h"
#include "device/target.h"
#include "device/wgmma.h"
#include "gemm/sm90/epilogue_scalar.h"
#include "gemm/sm90/epilogue_op.h"
#include "gemm/sm90/producer.h"
#include "gemm/sm90/pipeline.h"

namespace smem::gemm::sm90 {
inline namespace SMEM_BUILD {

template <typename T, Major A_MAJOR, Major B_MAJOR, Tile TILE, Exit EXIT>
struct Worker {
  const Arguments<T>& args;
  Shared<TILE> shared;
  uint32_t rank = TILE.cluster > 1 ? block_rank_in_cluster() : 0;

  static constexpr int WARPGROUP_ROWS = TILE.rows_of_warpgroup();
  static constexpr int SUMS = TILE.cols / 2;       ///< a thread's, of whole panels
  static constexpr int PRODUCTS = ROW_BYTES / 32;  ///< that follow each other along a step
  using Sums = float[SUMS];

  template <typename Visit>
  __device__ __forceinline__ void for_each_piece(const Visit& visit) const {
    const uint32_t first = blockIdx.x / TILE.cluster, clusters = gridDim.x / TILE.cluster;
    for (uint32_t i = first; i < args.schedule.pieces; i += clusters) {
      visit(piece_at(args.schedule, i));
    }
  }
  __device__ __forceinline__ int first_row(const Piece& piece) const {
    return (piece.row * TILE.cluster + rank) * TILE.rows;
  }
  __device__ __forceinline__ int first_col(const Piece& piece) const {
    return piece.col * args.tile_cols;
  }

  /// By one thread.
  __device__ __forceinline__ void load() const {
    Turn<TILE.stages> turn;
    for_each_piece([&](const Piece& piece) {
      const int row = first_row(piece), col = first_col(piece);
      const int a_member = args.a_batched ? piece.batch : 0;
      const int b_member = args.b_batched ? piece.batch : 0;
      const Loader<T, A_MAJOR, TILE.rows, TILE.cluster> a(args.a, args.a_rows, row);
      const Loader<T, B_MAJOR, TILE.cols, TILE.cluster, TILE.cluster> b(args.b, args.b_rows, col,
                                                                        rank);
      const uint32_t bytes = TILE.steps * (a.bytes() + b.bytes());
#pragma unroll 1
      for (int step = 0; step < piece.steps; step += TILE.steps, turn.next()) {
        shared.empty[turn.stage].wait(turn.parity ^ 1);
        Barrier& full = shared.full[turn.stage];
        full.arrive_and_expect_tx(bytes);
#pragma unroll
        for (int i = 0; i < TILE.steps; ++i) {
          const int k = (piece.step + step + i) * STEP_K<T>;
          a.load(shared.a(turn.stage, i), row, k, a_member, full);
          b.load(shared.b(turn.stage, i), col, k, b_member, full);
        }
      }
    });
  }

  /// Waits for a stage and begins to add its products.
  __device__ __forceinline__ void multiply(Sums& sums, uint32_t a0, uint32_t b0, int stage,
                                           uint32_t parity, bool first) const {
    const uint32_t moved = warp_uniform(stage * descriptor_units(TILE.stage_bytes()));
    const uint32_t a = a0 + moved, b = b0 + moved;
    shared.full[stage].wait(parity);
    warpgroup_arrive();
#pragma unroll
    for (int i = 0; i < TILE.steps; ++i) {
#pragma unroll
      for (int k = 0; k < PRODUCTS; ++k) {
        const uint32_t a_at = descriptor_units(i * TILE.a_bytes()) + k * K16_STEP<A_MAJOR>;
        const uint32_t b_at = descriptor_units(i * TILE.b_bytes()) + k * K16_STEP<B_MAJOR>;
        wgmma<T, A_MAJOR, B_MAJOR, TILE.width()>(
            sums, tile_descriptor(a + a_at), tile_descriptor(b + b_at), !first || i + k > 0);
      }
    }
    warpgroup_commit_batch();
  }

  /// Calls add(steps) for each of the chunks of K whose sums a piece adds in order, as reduce_split_k.cu
  /// does where chunks are pieces of their own.
  template <typename Add>
  __device__ __forceinline__ void add_chunks(Sums& sums, int steps, const Add& add) const {
    if constexpr (EXIT != Exit::any || !TILE.adds_chunks()) {
      add(steps);
    } else {
      const bool in_chunks = steps > args.chunk_steps;
      Sums totals;
      if (in_chunks) {
        // To which anything may be added and stays as it is.
#pragma unroll
        for (int i = 0; i < SUMS; ++i) totals[i] = sums[i] = -0.0f;
      }
#pragma unroll 1
      for (int left = steps;; left -= args.chunk_steps) {
        // Once before the first chunk, too, for this code to be there when it is waited for.
        if (in_chunks) {
#pragma unroll
          for (int i = 0; i < SUMS; ++i) totals[i] += sums[i];
        }
        if (left <= 0) break;
        add(min(left, args.chunk_steps));
      }
      if (in_chunks) {
#pragma unroll
        for (int i = 0; i < SUMS; ++i) sums[i] = totals[i];
      }
    }
  }

  // The accumulators leave 64 columns at a time.
  static constexpr int PARTS = TILE.cols / STAGING_COLS;
  static constexpr int PART_PAIRS = STAGING_ROWS * STAGING_COLS / WARP / 2;
  using Pairs = uint32_t[PARTS * PART_PAIRS];

  /// By a warpgroup.
  __device__ __forceinline__ void compute() const {
    const int warpgroup = threadIdx.x / WARPGROUP, warp = threadIdx.x / WARP;
    unsigned char* const staging = shared.staging + warp * STAGING_BYTES;
    const uint32_t a0 = warp_uniform(
        descriptor_at(shared_address(shared.a(0, 0)) + warpgroup * WARPGROUP_ROWS * ROW_BYTES));
    const uint32_t b0 = warp_uniform(descriptor_at(shared_address(shared.b(0, 0))));
    PartWriter<T> writer{args, staging};
    Pairs pairs;
    Corner waiting{};
    bool waits = false;
    Turn<TILE.stages> turn;
    for_each_piece([&](const Piece& piece) {
      Sums sums;
      add_chunks(sums, piece.steps, [&](int steps) {
        multiply(sums, a0, b0, turn.stage, turn.parity, true);
        int previous = turn.stage;
        turn.next();
        // The tensor cores have work again: time to write what the tile before has left.
        if (waits) write_parts<1, PARTS>(pairs, writer, waiting);
        waits = false;
#pragma unroll 1
        for (int step = TILE.steps; step < steps; step += TILE.steps, turn.next()) {
          multiply(sums, a0, b0, turn.stage, turn.parity, false);
          // One group of products keeps running while the stage before is given back.
          warpgroup_wait<1>();
          release_stage(shared, previous);
          previous = turn.stage;
        }
        warpgroup_wait<0>();
        release_stage(shared, previous);
      });

      if constexpr (EXIT == Exit::partials) {
        write_partials(sums, corner_of(piece), partials_of(piece), args.partial_pitch);
      } else if (EXIT != Exit::any || args.output != Output::elements) {
        waiting = corner_of(piece);
        waits = true;
        round_sums(sums, writer, waiting, pairs);
        // Where 128 accumulators are in use, the registers do not hold all parts any longer.
        write_parts<0, 1>(pairs, writer, waiting);
      } else {
        write_elements(sums, staging, corner_of(piece), piece);
      }
    });
    if (waits) write_parts<1, PARTS>(pairs, writer, waiting);
    tma_store_wait_read<0>();
  }

  __device__ __forceinline__ float* partials_of(const Piece& piece) const {
    const int64_t chunk = int64_t{piece.batch} * args.schedule.chunks + piece.chunk;
    return args.partials + chunk * args.epilogue.out.rows * args.partial_pitch;
  }

  /// Of the calling warp's first 16 rows.
  __device__ __forceinline__ Corner corner_of(const Piece& piece) const {
    const int warpgroup = threadIdx.x / WARPGROUP, warp = threadIdx.x / WARP % 4;
    const int rows = static_cast<int>(args.epilogue.out.rows);
    const int cols = static_cast<int>(args.epilogue.out.cols), col = first_col(piece);
    return {first_row(piece) + warpgroup * WARPGROUP_ROWS + warp * STAGING_ROWS, col, rows,
            min(col + args.tile_cols, cols), piece.batch};
  }

  __device__ __forceinline__ static Corner part_of(Corner corner, int part) {
    corner.col += part * STAGING_COLS;
    return corner;
  }

  /// Calls step(Finish of the subtile, its first sum, part) for each part.
  template <typename Step>
  __device__ __forceinline__ void for_each_part(Sums& sums, const Step& step) const {
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
      step(Finish<T, SUMS>{args.epilogue, sums}, part * 2 * PART_PAIRS, part);
    }
  }

  /// From sums to elements, which take half the registers.
  __device__ __forceinline__ void round_sums(Sums& sums, PartWriter<T>& writer,
                                             const Corner& corner, Pairs& pairs) const {
    const Epilogue<T>& epilogue = args.epilogue;
    const Finish<T, SUMS> finish{epilogue, sums};
    if (epilogue.alpha != 1) finish.multiply_by_alpha();
    if (epilogue.bias) finish.add_bias(corner.col);
    if constexpr (EXIT == Exit::any) {
      if (epilogue.pre.data) write_preactivations(sums, writer, corner);
      switch (epilogue.activation) {
        case Activation::gelu:
          return finish.template activate_and_round<Activation::gelu>(pairs);
        case Activation::gelu_tanh:
          return finish.template activate_and_round<Activation::gelu_tanh>(pairs);
        case Activation::silu:
          return finish.template activate_and_round<Activation::silu>(pairs);
        default:
          break;
      }
    }
    if (epilogue.activation == Activation::relu) finish.relu();
    for_each_part(sums, [&](const auto& f, int first, int part) {
      f.template round<PART_PAIRS>(first, pairs + part * PART_PAIRS);
    });
  }

  __device__ __forceinline__ void write_preactivations(Sums& sums, PartWriter<T>& writer,
                                                       const Corner& corner) const {
    const auto pieces = writer.pieces();
    for_each_part(sums, [&](const auto& f, int first, int part) {
      const Corner at = part_of(corner, part);
      uint32_t pairs[PART_PAIRS];
      f.template round<PART_PAIRS>(first, pairs);
      if (is_inside(at)) writer.write_boxes(pairs, 0, pieces, at, args.pre);
    });
  }

  __device__ __forceinline__ static bool is_inside(const Corner& corner) {
    return corner.row < corner.end_row && corner.col < corner.end_col;
  }

  template <int FIRST, int END>
  __device__ __forceinline__ void write_parts(const Pairs& pairs, PartWriter<T>& writer,
                                              const Corner& corner) const {
    const auto pieces = writer.pieces();
#pragma unroll
    for (int part = FIRST; part < END; ++part) {
      const Corner at = part_of(corner, part);
      if (!is_inside(at)) continue;
      if (EXIT == Exit::boxes || (EXIT == Exit::any && args.output == Output::boxes)) {
        writer.write_boxes(pairs, part * PART_PAIRS, pieces, at, args.out);
      } else {
        writer.write_rows(pairs, part * PART_PAIRS, pieces, at);
      }
    }
  }

  __device__ __forceinline__ void write_elements(const Sums& sums, unsigned char* staging,
                                                 const Corner& corner, const Piece& piece) const {
    const ElementWriter<T> writer(args, staging, piece.batch);
    // Not unrolled, but for the registers' sake: their numbers cannot be computed.
#pragma unroll 1
    for (int part = 0; part < PARTS; ++part) {
      const Corner at = part_of(corner, part);
      if (!is_inside(at)) continue;
#pragma unroll
      for (int i = 0; i < PARTS; ++i) {
        if (i == part) writer.stage(sums, i * STAGING_COLS / 2);
      }
      __syncwarp();
      writer.write(at);
      __syncwarp();
    }
  }
};

/// Its part that multiplies is another one for floats (mainloop_tf32_rs.h).
template <typename T, Major A_MAJOR, Major B_MAJOR, Tile TILE, Exit EXIT>
struct WorkerOf {
  using Type = Worker<T, A_MAJOR, B_MAJOR, TILE, EXIT>;
};

// nvcc cannot write the host's side of a kernel whose template argument is a struct.
template <typename T, Major A_MAJOR, Major B_MAJOR, int INDEX, Exit EXIT>
__global__ void __launch_bounds__(launch_bound(TARGET_HAS_SM90A, TILES[INDEX].threads()),
                                  TILES[INDEX].blocks)
    gemm_kernel(const __grid_constant__ Arguments<T> args) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  constexpr Tile TILE = TILES[INDEX];
  const typename WorkerOf<T, A_MAJOR, B_MAJOR, TILE, EXIT>::Type worker{args};
  launch_dependent_grids();
  prefetch_param(args.schedule);
  prefetch_param(args.epilogue);
  // Known to be the same in a warp, or descriptors are moved to uniform registers for every wgmma.
  const uint32_t warp = warp_uniform(threadIdx.x / WARP);
  const bool loads = warp == TILE.consumers() * 4;
  if (loads && elect_one()) {
    prefetch_tensor_map(args.a[0]);
    prefetch_tensor_map(args.b[0]);
    prepare_barriers(worker.shared);
  }
  // Three warpgroups start with 168 registers a thread; the two that multiply want more.
  constexpr bool MOVES_REGISTERS = TILE.consumers() == 2;
  if (warp >= TILE.consumers() * 4) {
    await_barriers<TILE>(loads, false);
    if constexpr (MOVES_REGISTERS) warpgroup_reg_dealloc<24>();
    if (loads && elect_one()) {
      wait_on_dependent_grids();  // which may have packed an operand
      worker.load();
    }
  } else {
    await_barriers<TILE>(false, true);
    if constexpr (MOVES_REGISTERS) warpgroup_reg_alloc<240>();
    worker.compute();
  }
  // A block that ends takes its shared memory away, where others of the cluster may still arrive.
  if constexpr (TILE.cluster > 1) {
    __syncwarp();
    cluster_sync();
  }
#endif
}

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::sm90
