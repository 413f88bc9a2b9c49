// GEMM on Hopper's tensor cores. One warp has the copy engine fill stages of shared memory, one or
// two warpgroups multiply what has come, and each block goes on to the next tile while the copy
// engine already loads it.
//
// Bits: an accumulator adds its products from zero, 16 k at a time in ascending order, whatever the
// tile, so all tiles agree; what lies beyond K comes as zeros.
#pragma once

#include "device/wgmma.h"
#include "gemm/hopper/pipeline.h"
#include "gemm/hopper/store.h"

namespace smem::gemm::hopper {
inline namespace SMEM_BUILD {

/// The part of an operand's tile that this block loads, for every block that shares it.
template <Major MAJOR, int ROWS, int SHARERS>
struct Loader {
  const CUtensorMap& map;
  int part;       ///< which of SHARERS this block loads
  uint16_t mask;  ///< of the blocks that share it
  int rows;       ///< of a box, where ROWS is more than the tile takes

  __device__ __forceinline__ void load(unsigned char* tile, int row, int k, int batch,
                                       Barrier& barrier) const {
    if constexpr (MAJOR == Major::K) {
      constexpr int PART = ROWS / SHARERS;
      box(tile + part * PART * ROW_BYTES, {k, row + part * PART, batch}, barrier);
    } else {
      constexpr int PANELS = ROWS < PANEL ? 1 : ROWS / PANEL;
#pragma unroll
      for (int panel = 0; panel < PANELS; ++panel) {
        if (panel % SHARERS != part) continue;
        box(tile + panel * PANEL * ROW_BYTES, {row + panel * PANEL, k, batch}, barrier);
      }
    }
  }
  /// What arrives in this block, from all that share.
  __device__ __forceinline__ uint32_t bytes() const {
    if constexpr (MAJOR == Major::K) return rows * ROW_BYTES;
    return (ROWS < PANEL ? PANEL : ROWS) * ROW_BYTES;
  }

 private:
  __device__ __forceinline__ void box(unsigned char* to, Coordinates at, Barrier& barrier) const {
    if constexpr (SHARERS > 1) {
      load_box(to, map, at, barrier, mask);
    } else {
      load_box(to, map, at, barrier);
    }
  }
};

template <typename T, Major A_MAJOR, Major B_MAJOR, Tile TILE>
struct Worker {
  const Arguments<T>& args;
  Shared<TILE> shared;
  Place<TILE> place;
  uint32_t cluster, clusters;

  static constexpr int WARPGROUP_ROWS = TILE.rows_of_warpgroup();
  static constexpr int SUBTILES = WARPGROUP_ROWS / PANEL;
  static constexpr int SUMS = TILE.cols / 2;  ///< a thread's, of 64 rows
  using Sums = float[SUBTILES][SUMS];

  template <typename Visit>
  __device__ __forceinline__ void for_each_piece(const Visit& visit) const {
    const Schedule& s = args.schedule;
    const uint32_t pieces = s.rows * s.cols * s.chunks * s.batch;
    for (uint32_t i = cluster; i < pieces; i += clusters) visit(piece_at(s, i));
  }
  __device__ __forceinline__ int first_row(const Piece& piece) const {
    return (piece.row * TILE.cluster_rows + place.row) * TILE.rows;
  }
  __device__ __forceinline__ int first_col(const Piece& piece) const {
    return (piece.col * TILE.cluster_cols + place.col) * args.tile_cols;
  }

  /// By one thread.
  __device__ __forceinline__ void load() const {
    const Loader<A_MAJOR, TILE.rows, TILE.cluster_cols> a{args.a, place.col, place.row_mask(),
                                                          TILE.rows};
    const Loader<B_MAJOR, TILE.cols, TILE.cluster_rows> b{args.b, place.row, place.col_mask(),
                                                          args.tile_cols};
    const uint32_t bytes = TILE.steps * (a.bytes() + b.bytes());
    Turn<TILE.stages> turn;
    for_each_piece([&](const Piece& piece) {
      const int row = first_row(piece), col = first_col(piece);
      const int a_member = args.a_batched ? piece.batch : 0;
      const int b_member = args.b_batched ? piece.batch : 0;
      for (int step = 0; step < piece.steps; step += TILE.steps, turn.next()) {
        shared.empty[turn.stage].wait(turn.parity ^ 1);
        Barrier& full = shared.full[turn.stage];
        full.arrive_expecting(bytes);
#pragma unroll
        for (int i = 0; i < TILE.steps; ++i) {
          const int k = (piece.step + step + i) * STEP_K;
          a.load(shared.a(turn.stage, i), row, k, a_member, full);
          b.load(shared.b(turn.stage, i), col, k, b_member, full);
        }
      }
    });
  }

  /// Begins to add one stage's products.
  __device__ __forceinline__ void multiply(Sums& sums, int stage, int warpgroup,
                                           bool first) const {
    begin_products();
#pragma unroll
    for (int i = 0; i < TILE.steps; ++i) {
      const uint64_t b = tile_descriptor(shared_address(shared.b(stage, i)), PANEL * ROW_BYTES);
      const uint32_t rows =
          shared_address(shared.a(stage, i)) + warpgroup * WARPGROUP_ROWS * ROW_BYTES;
      const uint64_t a = tile_descriptor(rows, PANEL * ROW_BYTES);
#pragma unroll
      for (int k = 0; k < STEP_K / 16; ++k) {
#pragma unroll
        for (int m = 0; m < SUBTILES; ++m) {
          multiply_tiles<T, A_MAJOR, B_MAJOR, TILE.cols>(
              sums[m], a + k * K16_STEP<A_MAJOR> + m * (PANEL * ROW_BYTES >> 4),
              b + k * K16_STEP<B_MAJOR>, !first || i + k > 0);
        }
      }
    }
    end_product_group();
  }

  /// By a warpgroup.
  __device__ __forceinline__ void compute() const {
    const int warpgroup = threadIdx.x / WARPGROUP, warp = threadIdx.x / WARP;
    unsigned char* const staging = shared.staging + warp * STAGING_BYTES;
    BoxWriter<T> boxes{args, staging};
    Turn<TILE.stages> turn;
    for_each_piece([&](const Piece& piece) {
      Sums sums;
      int previous = 0;
      for (int step = 0; step < piece.steps; step += TILE.steps, turn.next()) {
        shared.full[turn.stage].wait(turn.parity);
        multiply(sums, turn.stage, warpgroup, step == 0);
        // One group of products keeps running while the stage before is given back.
        wait_for_products<1>();
        if (step > 0) release_stage(shared, place, previous);
        previous = turn.stage;
      }
      wait_for_products<0>();
      release_stage(shared, place, previous);

      if (args.output == Output::boxes) {
        write_boxes(sums, boxes, corner_of(piece));
      } else {
        write_elements(sums, staging, corner_of(piece), piece);
      }
    });
    wait_for_store_reads<0>();
  }

  /// Of the calling warp's first 16 rows.
  __device__ __forceinline__ Corner corner_of(const Piece& piece) const {
    const int warpgroup = threadIdx.x / WARPGROUP, warp = threadIdx.x / WARP % 4;
    const int64_t rows = args.epilogue.out.rows, cols = args.epilogue.out.cols;
    const int64_t col = first_col(piece), end_col = col + args.tile_cols;
    return {first_row(piece) + warpgroup * WARPGROUP_ROWS + warp * STAGING_ROWS, col, rows,
            end_col < cols ? end_col : cols, piece.batch};
  }

  // The accumulators go 64 columns at a time.
  static constexpr int WIDTH = TILE.cols < STAGING_COLS ? TILE.cols : STAGING_COLS;
  static constexpr int CHUNKS = TILE.cols / WIDTH;

  __device__ __forceinline__ static Corner part_of(Corner corner, int part) {
    corner.row += part / CHUNKS * PANEL;
    corner.col += part % CHUNKS * WIDTH;
    return corner;
  }

  __device__ __forceinline__ void write_boxes(const Sums& sums, BoxWriter<T>& boxes,
                                              const Corner& corner) const {
    if constexpr (WIDTH == STAGING_COLS) {
#pragma unroll
      for (int part = 0; part < SUBTILES * CHUNKS; ++part) {
        const Corner at = part_of(corner, part);
        if (at.row < at.end_row && at.col < at.end_col) {
          boxes.write(sums[part / CHUNKS], part % CHUNKS * WIDTH / 2, at);
        }
      }
    }
  }

  __device__ __forceinline__ void write_elements(const Sums& sums, unsigned char* staging,
                                                 const Corner& corner, const Piece& piece) const {
    const ElementWriter<T> writer(args, staging, piece.batch);
    const int64_t rows = args.epilogue.out.rows, cols = args.epilogue.out.cols;
    // Not unrolled, but for the registers' sake: their numbers cannot be computed.
#pragma unroll 1
    for (int part = 0; part < SUBTILES * CHUNKS; ++part) {
      const Corner at = part_of(corner, part);
      if (at.row >= at.end_row || at.col >= at.end_col) continue;
#pragma unroll
      for (int i = 0; i < SUBTILES * CHUNKS; ++i) {
        if (i == part) writer.template stage<WIDTH>(sums[i / CHUNKS], i % CHUNKS * WIDTH / 2);
      }
      __syncwarp();
      if (args.output == Output::partials) {
        const int64_t chunk = int64_t{piece.batch} * args.schedule.chunks + piece.chunk;
        float* const partials = args.partials + chunk * rows * cols;
        writer.for_each(at, [&](int64_t r, int64_t c, float sum) { partials[r * cols + c] = sum; });
      } else if (writer.wide) {
        writer.write_runs(at);
      } else {
        writer.for_each(at, [&](int64_t r, int64_t c, float sum) { writer.epilogue.store(r, c, sum); });
      }
      __syncwarp();
    }
  }
};

// nvcc cannot write the host's side of a kernel whose template argument is a struct.
template <typename T, Major A_MAJOR, Major B_MAJOR, int INDEX>
__global__ void __launch_bounds__(TILES[INDEX].threads(), 1)
    gemm_kernel(const __grid_constant__ Arguments<T> args) {
  constexpr Tile TILE = TILES[INDEX];
  Worker<T, A_MAJOR, B_MAJOR, TILE> worker{args, {}, {}, blockIdx.x / TILE.cluster(),
                                           gridDim.x / TILE.cluster()};
  prepare_barriers(worker.shared);
  // Three warpgroups start with 168 registers a thread; the two that multiply want more.
  constexpr bool MOVES_REGISTERS = TILE.consumers() == 2;
  if (threadIdx.x >= TILE.consumers() * WARPGROUP) {
    if constexpr (MOVES_REGISTERS) give_registers<40>();
    if (threadIdx.x / WARP == TILE.consumers() * 4 && elect_one()) worker.load();
  } else {
    if constexpr (MOVES_REGISTERS) take_registers<232>();
    worker.compute();
  }
  // A block that ends takes its shared memory away, where others of the cluster may still arrive.
  if constexpr (TILE.cluster() > 1) {
    __syncwarp();
    cluster_sync();
  }
}

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::hopper
