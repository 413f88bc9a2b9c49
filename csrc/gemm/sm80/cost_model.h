// The cost model: what heuristics.cpp expects a GPU to take.
//
// The constants of tiles of whole vectors are fitted to 236 problems in bfloat16 and tf32 on an
// H200, with seven tiles each (bench/NOTES.md). On other GPUs they are what is derived, not
// measured.
#pragma once

#include "gemm/gpu_rates.h"
#include "gemm/sm80/heuristics.h"

namespace smem::gemm::sm80 {

/// Times are in nanoseconds or cycles. "Factor" is a dimensionless multiplier of a time.
struct CostModel {
  double ns_launch = 3750;               ///< ns for launch and end of a kernel
  double ns_next_launch = 3000;          ///< ns for each further launch
  double cycles_fill = 3500;             ///< cycles until a block's first stage has landed
  double cycles_latency = 1850;          ///< cycles of a load, which the stages in flight hide
  double cycles_per_step = 58;           ///< cycles of a dependent mma along K
  double cycles_per_barrier = 20;        ///< cycles of a k-tile's barrier
  double cycles_per_element = 0.18;      ///< cycles of an SM to store one element of out
  double cycles_per_odd_element = 0.26;  ///< the same where rows of out are no whole vectors
  double shared_bytes_per_cycle = 128;   ///< of an SM
  double copy_factor = 1.4;              ///< of the time that cp.async occupies shared memory
  double overlap = 0.8;                  ///< fraction of a shorter task hidden behind a longer one

  double pack_factor = 2.1;  ///< of the time that DRAM would take to pack operands

  // The other tiles: fitted to the times of 3,095 and 1,480 pairs of a tile and a problem in
  // bfloat16 and tf32 on an H100, the more the nearer a tile is to the fastest (bench/NOTES.md).
  // They are 12% off (root mean square).

  // Tiles of unaligned operands.
  double cycles_unaligned_fill = 2740;     ///< as cycles_fill, once for all work tiles of a block
  double cycles_unaligned_latency = 2720;  ///< as cycles_latency
  double cycles_per_work_tile = 340;       ///< of the SM, beside its k-tiles and its stores
  double cycles_per_mn_major_row = 1.3;    ///< of an SM, for a row along M or N of a k-tile of 16
                                           ///< bits: such rows are short
  double cycles_per_shift = 111;           ///< cycles until a thread has shifted one vector
  double shift_factor = 4.5;               ///< of the time to read a stage from shared memory
  double unaligned_dram_factor = 1.77;     ///< of the time for whole rows

  // Tiles of LoadMode::ldg.
  double cycles_ldg_fill = 2200;         ///< cycles of a block that are not in its loop
  double cycles_ldg_latency = 750;       ///< cycles until the first load of an iteration has come
  double cycles_per_pending_ldg = 20.5;  ///< cycles until each further load of a warp has come
  double cycles_per_ldg = 4;     ///< cycles of an SM for a load by a warp, of 8 K-major rows
  double mn_major_factor = 0.5;  ///< of the same for an MN-major operand: it is of 4 rows
  double cycles_per_ldg_mma = 3.8;
  double cycles_per_ldg_element = 0.083;  ///< as cycles_per_element
  double cycles_per_split_row = 2.5;      ///< of an SM for a row of a tile that begins within a
                                          ///< sector of 32 bytes
  double ldg_dram_factor = 1.85;          ///< as unaligned_dram_factor
};

/// The blocks of a tile that an SM of the device holds.
int blocks_per_sm(const TileConfig& tile, const GpuRates& rates);

/// The work tiles of a plan with this tile: those of out, for each slice of K and each matrix.
int64_t work_tiles_of(const Problem& problem, const Plan& plan, const TileConfig& tile);

/// The expected time. An SM computes its blocks as many at a time as it holds. Together they take
/// as long as their mma or their shared memory; each takes at least as long as its loads and its
/// chain of mma. The fill, the epilogue, DRAM and further launches add up.
double expected_ns(const Problem& problem, const Plan& plan, const Device& device);

}  // namespace smem::gemm::sm80
