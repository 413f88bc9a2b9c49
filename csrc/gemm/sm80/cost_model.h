// The cost model: what heuristics.cpp expects a GPU to take.
//
// The constants were fitted, together with those of sm90/cost_model.h, to the times of all tiles on
// an H200 (bench/NOTES.md). On other GPUs they are what is derived, not measured.
#pragma once

#include "gemm/gpu_rates.h"
#include "gemm/sm80/heuristics.h"

namespace smem::gemm::sm80 {

/// Times are in nanoseconds or cycles. "Factor" is a dimensionless multiplier of a time.
struct CostModel {
  double ns_launch = 2337;              ///< ns for launch and end of a kernel
  double ns_reduce_launch = 1383;       ///< ns for the reduction of split-K
  double ns_pack_launch = 4862;         ///< ns for the kernel that packs operands
  double cycles_fill = 4526;            ///< cycles until a block's first stage has landed
  double cycles_latency = 1549;         ///< cycles of a load, which the stages in flight hide
  double cycles_per_step = 102.3;       ///< cycles of a dependent mma along K
  double cycles_per_barrier = 25.4;     ///< cycles of a k-tile's barrier
  double cycles_per_element = 0.1923;   ///< cycles of an SM to store one element of out
  double shared_bytes_per_cycle = 128;  ///< of an SM
  double copy_factor = 3.643;           ///< of the time that cp.async occupies shared memory
  double overlap = 0.9307;              ///< fraction of a shorter task hidden behind a longer one

  double pack_factor = 1.532;  ///< of the time that DRAM would take to pack operands

  // Tiles of unaligned operands.
  double cycles_unaligned_fill = 3297;     ///< as cycles_fill, once for all work tiles of a block
  double cycles_unaligned_latency = 3776;  ///< as cycles_latency
  double cycles_per_work_tile = 560;       ///< of the SM, beside its k-tiles and its stores
  double cycles_per_mn_major_row = 3.094;  ///< of an SM, for a row along M or N of a k-tile of 16
                                           ///< bits: such rows are short
  double cycles_per_k_major_row_tf32 = 0.7993;  ///< the same for a row of floats along K
  double cycles_per_shift = 173.3;              ///< cycles until a thread has shifted one vector
  double shift_factor = 2.886;                  ///< of the time to read a stage from shared memory
  double unaligned_dram_factor = 0.2874;        ///< of the time to read and write, which loads hide
  double raw_copy_factor_tf32 = 3.211;          ///< as copy_factor; floats are read where they land
  double cycles_unaligned_latency_tf32 = 1877;  ///< as cycles_latency
  double unaligned_dram_factor_tf32 = 1.438;    ///< as unaligned_dram_factor

  // Tiles of LoadMode::ldg.
  double cycles_ldg_fill = 1763;          ///< cycles of a block that are not in its loop
  double cycles_ldg_latency = 814.5;      ///< cycles until the first load of an iteration has come
  double cycles_per_pending_ldg = 36.56;  ///< cycles until each further load of a warp has come
  double cycles_per_ldg = 2.542;     ///< cycles of an SM for a load by a warp, of 8 K-major rows
  double mn_major_factor = 0.06566;  ///< of the same for an MN-major operand: it is of 4 rows
  double cycles_per_ldg_mma = 15.71;
  double cycles_per_ldg_element = 0.07345;  ///< as cycles_per_element
  double cycles_per_split_row = 3.129;      ///< of an SM for a row of a tile that begins within a
                                            ///< sector of 32 bytes
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
