// The simt kernel: out = activation(alpha * A @ B + beta * C + bias) by IEEE fma, without tensor
// cores. A block computes one tile of out, over all of K or over one slice of it (split-K).
//
// Thread map. A thread holds TM x TN accumulators in registers and reads TM + TN values per k. On
// Hopper an FFMA takes the whole issue slot of its quarter of an SM, so the speed depends on how
// few other instructions there are: 8 x 16 accumulators make 128 FFMA per 6 loads of 16 bytes. All
// warps have the same role; thread_map.h says which elements a thread computes.
//
// Pipeline. With the multistage loader (load_multistage.h) and STAGES = 5, where s0 to s4 are the
// stages of shared memory:
//
//   step                        0         1         2         3
//   cp.async loads step       4 -> s4   5 -> s0   6 -> s1   7 -> s2    STAGES - 1 steps ahead
//   wait + barrier: landed    s1        s2        s3        s4         one barrier per step
//   fragments of k + 1 from   s0, s1    s1, s2    s2, s3    s3, s4     one k ahead
//   FFMA with values of       s0        s1        s2        s3
//
// With the pipelined loader (load_pipelined.h, STAGES = 3), registers replace the copies in flight,
// and the two operands use the same registers for half a step each: B of step + 2 is stored from
// registers to its stage and A of step + 2 is loaded; half a step later A is stored and B of
// step + 3 is loaded.
//
// Accumulators. The order of additions is that of accumulation_order.h. Interval accumulators are
// in shared memory: in registers they would halve the tile, and in local memory every interval
// would go through L2. Superblock accumulators are in local memory, which is used every 1024 or
// 2048 of k.
//
// What may be changed: the configurations in tile_config.h. In the main loop, the place of the
// barrier and of the copies among the products (at BARRIER_AT and after) and the order of the
// products within one k change the speed only, not the bits. nvcc's schedule is sensitive to all of
// them, so measure: even moving the copies into a lambda changes the machine code of 18 of the 56
// kernels (CUDA 13.0). The order of k and of the promotions decides the bits.
#pragma once

#include "device/pdl.h"
#include "device/target.h"
#include "gemm/block_tile.h"
#include "gemm/simt/epilogue.h"
#include "gemm/simt/fragments.h"
#include "gemm/simt/load_multistage.h"
#include "gemm/simt/load_pipelined.h"
#include "gemm/simt/promoted_accum.h"
#include "gemm/simt/reduce_split_k.h"

namespace smem::gemm::simt::inline SMEM_BUILD {

/// The shared memory of a block.
template <typename T, int TILE, LayoutPair LAYOUTS>
struct SharedStorage {
  using Map = ThreadMap<T, TILE>;
  static constexpr int DEPTH = depth_of(TILE, LAYOUTS);
  static constexpr bool VIA_REGISTERS = LAYOUTS == LayoutPair::via_registers;
  using LoadA =
      std::conditional_t<VIA_REGISTERS, PipelinedLoader<T, Map::ROWS, DEPTH, Map::THREADS>,
                         MultistageLoader<T, Map::ROWS, DEPTH, Map::THREADS, Map::VEC_M,
                                          Map::LANES_M, load_modes(LAYOUTS).a>>;
  using LoadB =
      std::conditional_t<VIA_REGISTERS, PipelinedLoader<T, Map::COLS, DEPTH, Map::THREADS>,
                         MultistageLoader<T, Map::COLS, DEPTH, Map::THREADS, Map::VEC_N,
                                          Map::LANES_N, load_modes(LAYOUTS).b>>;

  struct Stage {
    typename LoadA::Stage a;
    typename LoadB::Stage b;
  };

  /// One vector of accumulators per slot (ThreadMap::accum_slot). The slots of neighbouring threads
  /// are neighbours.
  Tile<T, Map::ACCUM_VECS * Map::THREADS, Map::ACCUM_VEC> accum_slots;
  Stage stages[stages_of(TILE, LAYOUTS, sizeof(T))];
};

/// The tile of a block, swizzled for L2: blocks are numbered down a group of `swizzle_size` tile
/// rows first, then along N. Blocks that run at the same time then share rows of A and columns of
/// B.
///
///   swizzle_size = 2:   0  2  4  6
///                       1  3  5  7
///                       8 10 12 14
///                       9 11 13 15
__device__ __forceinline__ unsigned swizzled_tile_index(unsigned index, unsigned tiles_m,
                                                        unsigned tiles_n, unsigned swizzle_size) {
  const unsigned tiles = tiles_m * tiles_n, batch = index / tiles, tile = index % tiles;
  const unsigned first_row = tile / (swizzle_size * tiles_n) * swizzle_size;
  const unsigned in_group = tile % (swizzle_size * tiles_n);
  const unsigned rows = lesser(swizzle_size, tiles_m - first_row);
  return batch * tiles + (first_row + in_group % rows) * tiles_n + in_group / rows;
}

/// Computes one tile and stores it to out, or its partials to the workspace.
template <typename T, int TILE, LayoutPair LAYOUTS>
__global__ void __launch_bounds__(ThreadMap<T, TILE>::THREADS,
                                  launch_bound_blocks(min_blocks_per_sm(TILE, LAYOUTS)))
    simt_kernel(const __grid_constant__ SimtParams params) {
  using Map = ThreadMap<T, TILE>;
  using Storage = SharedStorage<T, TILE, LAYOUTS>;
  constexpr int DEPTH = Storage::DEPTH, STAGES = stages_of(TILE, LAYOUTS, sizeof(T));
  constexpr int W = Map::ACCUM_VEC, AHEAD = STAGES - 1;
  static_assert(MIN_ACCUM_INTERVAL % DEPTH == 0, "an interval ends where a stage ends");
  static_assert(STAGES >= 3, "one is read, the next has landed, one is written");

  const Problem& problem = params.problem;
  const SplitK& split_k = params.split_k;
  const auto k_slice = static_cast<int64_t>(blockIdx.x % split_k.slices);
  const unsigned index = blockIdx.x / split_k.slices;
  const BlockTile<T> block(
      problem, Map::ROWS, Map::COLS,
      swizzled_tile_index(index, params.tiles_m, params.tiles_n, params.swizzle_size));
  const int64_t interval = accum_interval(problem.K);
  const int64_t k_begin = k_slice * split_k.slice_length;
  const int64_t length = lesser(problem.K - k_begin, split_k.slice_length);
  const auto steps = static_cast<int>((length + DEPTH - 1) / DEPTH);

  Storage& storage = *dynamic_shared<Storage>();
  using Promoted = PromotedAccum<T, TILE, has_interval_accum_in_registers(TILE, LAYOUTS)>;
  Promoted promoted(storage.accum_slots);
  typename Promoted::Registers accum = {}, interval_accum = {};
  Matrix<const T> A = block.A, B = block.B.transposed();
  if constexpr (Storage::VIA_REGISTERS) A.cols = B.cols = k_begin + length;
  if (params.padded_a) A.rows = block.row0 + Map::ROWS;
  if (params.padded_b) B.rows = block.col0 + Map::COLS;
  typename Storage::LoadA load_a(A, block.row0, k_begin);
  typename Storage::LoadB load_b(B, block.col0, k_begin);
  wait_on_dependent_grids();
  if constexpr (Storage::VIA_REGISTERS) load_b.load_to_registers();

  const auto valid_rows = static_cast<int>(lesser(problem.M - block.row0, int64_t{Map::ROWS}));
  const auto write_partial = [&](int64_t unit) {
    const Matrix<T> partial = partials_at<T>(params, index, unit);
    const bool wide = rows_are_vectors<W>(partial);
    for_each_vector<T, TILE>(
        storage.accum_slots, valid_rows, Map::COLS, [&](int row, int col, const auto& vec) {
          store_row_run(partial, block.row0 + row, block.col0 + col, vec, wide);
        });
    promoted.discard_intervals();
    __syncthreads();
  };

  // Steps whose tiles are wholly inside the operands are loaded among the products, without tests.
  const bool all_rows_valid = load_a.all_rows_valid() && load_b.all_rows_valid();
  const auto steps_inside = Storage::VIA_REGISTERS ? steps
                            : all_rows_valid       ? static_cast<int>(length / DEPTH)
                                                   : 0;
  // Loads both operands of a step at once: in the prologue, and at the edges.
  const auto load_at_edge = [&](int step) {
    const auto depth = static_cast<int>(lesser(length - int64_t{step} * DEPTH, int64_t{DEPTH}));
    auto& stage = storage.stages[step % STAGES];
    if constexpr (Storage::VIA_REGISTERS) {
      load_a.load_to_registers();
      load_a.store_to_stage(stage.a);
      load_b.store_to_stage(stage.b);
      load_b.load_to_registers();
    } else {
      load_a.load_at_edge(stage.a, depth);
      load_b.load_at_edge(stage.b, depth);
    }
  };
  for (int step = 0; step < AHEAD; ++step) {
    if (step < steps) load_at_edge(step);
    cp_async_commit();
  }
  int row = Map::first_row(), col = Map::first_col(), tail_col = 0;
  if constexpr (Map::TAIL_N > 0) tail_col = Map::tail_col();
  opaque(row);
  opaque(col);
  if constexpr (Map::TAIL_N > 0) opaque(tail_col);
  Fragments<T, Map::TM, Map::VEC_M, Map::LANES_M, typename Storage::LoadA> a;
  Fragments<T, Map::TN, Map::VEC_N, Map::LANES_N, typename Storage::LoadB> b;
  const auto load_fragments = [&](const typename Storage::Stage& stage, int k) {
    a.load(stage.a, row, row, k);
    b.load(stage.b, col, tail_col, k);
  };

  if (steps > 0) {
    cp_async_wait<AHEAD - 1>();
    __syncthreads();
    load_fragments(storage.stages[0], 0);
  }
  const auto interval_steps = static_cast<int>(interval / DEPTH);
  constexpr int BARRIER_AT = 1;  // with the order of products below, nvcc's best schedule
  int step = 0, read_stage = 0, write_stage = AHEAD;
  for (; step < steps;) {
    const int interval_end = lesser(step + interval_steps, steps);
    for (; step < interval_end; ++step) {
      const bool inside = step + AHEAD < steps_inside;
      const int following = read_stage + 1 == STAGES ? 0 : read_stage + 1;
      const int next_stage = step + 1 < steps ? following : read_stage;
#pragma unroll
      for (int k = 0; k < DEPTH; ++k) {
        load_fragments(storage.stages[k + 1 < DEPTH ? read_stage : next_stage], (k + 1) % DEPTH);
        // The part of step + AHEAD's load that is issued at k of the current step:
        //                        multistage                pipelined
        //   BARRIER_AT           wait, barrier, edges      barrier
        //   BARRIER_AT + 1       cp.async of A             B to its stage, A to registers
        //   BARRIER_AT + 2       cp.async of B, commit
        //   half a step later                              A to its stage, next B to registers
        if (k == BARRIER_AT) {
          // After the barrier, the next stage has landed and the previous one is no longer read.
          // The barrier is inside the step so that warps may drift apart where an interval ends.
          cp_async_wait<AHEAD - 2>();
          __syncthreads();
          if (!inside && step + AHEAD < steps) load_at_edge(step + AHEAD);
        } else if (k == BARRIER_AT + 1) {
          if constexpr (Storage::VIA_REGISTERS) {
            if (inside) {
              load_b.store_to_stage(storage.stages[write_stage].b);
              load_a.load_to_registers();
            }
          } else {
            if (inside) load_a.load_inside(storage.stages[write_stage].a);
          }
        } else if (k == BARRIER_AT + 2) {
          if constexpr (!Storage::VIA_REGISTERS) {
            if (inside) load_b.load_inside(storage.stages[write_stage].b);
            cp_async_commit();
          }
        } else if (Storage::VIA_REGISTERS && k == BARRIER_AT + 1 + DEPTH / 2) {
          if constexpr (Storage::VIA_REGISTERS) {
            if (inside) {
              load_a.store_to_stage(storage.stages[write_stage].a);
              load_b.load_to_registers();
            }
          }
        }
        // The products go back and forth, so that each finds one factor in the operand cache.
#pragma unroll
        for (int first = 0; first < Map::TM; first += Map::VEC_M) {
#pragma unroll
          for (int j = 0; j < Map::TN; ++j) {
#pragma unroll
            for (int i = 0; i < Map::VEC_M; ++i) {
              const int s = first + (j % 2 ? Map::VEC_M - 1 - i : i);
              const int t = first / Map::VEC_M % 2 ? Map::TN - 1 - j : j;
              accum[s][t] = fma(a(k, s), b(k, t), accum[s][t]);
            }
          }
        }
      }
      write_stage = read_stage;
      read_stage = next_stage;
    }
    if (step == steps) break;
    promoted.end_interval(accum, interval_accum);
    const int64_t intervals = k_begin / interval + step / interval_steps;
    if (split_k.unit == PartialUnit::interval) {
      promoted.flush_intervals(interval_accum);
      write_partial(intervals - 1);
    } else if (intervals % INTERVALS_PER_SUPERBLOCK == 0) {
      if (split_k.unit == PartialUnit::superblock) {
        promoted.flush_intervals(interval_accum);
        write_partial(intervals / INTERVALS_PER_SUPERBLOCK - 1);
      } else {
        promoted.end_superblock(interval_accum);
      }
    }
  }
  promoted.finish(accum, interval_accum);

  if (split_k.unit != PartialUnit::none) {
    const int64_t unit =
        split_k.unit == PartialUnit::interval ? interval : interval * INTERVALS_PER_SUPERBLOCK;
    write_partial((k_begin + length - 1) / unit);
  } else {
    if constexpr (TILE != TILE_128X128 || Storage::VIA_REGISTERS) {
      store_unaligned_tile<T, TILE>(block, storage.accum_slots, valid_rows);
    } else {
      store_tile<T, TILE>(block, storage.accum_slots, valid_rows);
    }
  }
}

}  // namespace smem::gemm::simt::inline SMEM_BUILD
