// The cost model: what heuristics.cpp expects a Hopper GPU to take.
//
// The constants were fitted, together with those of sm80/cost_model.h, to the times of all tiles on
// an H100 (bench/NOTES.md): by a random search over all of them. The fit asks for the right order
// of the tiles, also of `mma`'s, first and for the right times second, so a single constant is not
// a measurement of the hardware.
#pragma once

#include "gemm/sm90/heuristics.h"

namespace smem::gemm::sm90 {

/// Times are in nanoseconds. "Factor" is a dimensionless multiplier of a time.
struct CostModel {
  // The mainloop, per SM.
  double flops_per_ns = 9141;         ///< FLOP per ns of an SM
  double ns_per_row = 1.088;          ///< ns to load one row of 128 bytes from L2 by TMA
  double two_lines_factor = 1.218;    ///< rows that span two cache lines
  double sectors_factor = 1.9;        ///< rows that also begin within a 32-byte sector
  double ns_per_wgmma_chain = 119.9;  ///< ns for the 4 dependent wgmmas of a k-tile, at least
  double ns_load_latency = 1740;      ///< ns from a load to its data; a tile's stages share it
  double latency_overlap = 0.9038;    ///< as overlap, of that and the other work of a k-tile
  double narrow_factor = 1.904;       ///< mma_n <= 64 with two warpgroups, which each read B
  double narrow_tf32_factor = 1.927;
  double medium_tf32_factor = 1.262;     ///< mma_n <= 128 with two warpgroups, tf32
  double ns_per_accum_interval = 36.02;  ///< ns to add one accumulator to another
  double ns_per_accum_interval_tf32 = 295.1;

  // Launches and work tiles. Further launches begin while the kernel before ends (device/pdl.h).
  double ns_launch = 3283;           ///< ns for launch, first loads and end of a kernel
  double ns_cluster_launch = 1210;   ///< ns more for a kernel with clusters
  double ns_code_per_accum = 26.54;  ///< ns per accumulator of a thread: longer, uncached code
  double ns_per_work_tile = 599.7;   ///< ns between two work tiles of a cluster
  double ns_reduce_launch = 1800;    ///< ns for the reduction of split-K
  double ns_pack_launch = 1898;      ///< ns for the kernel that packs operands

  // The epilogue, per element and warpgroup.
  double ns_store_tma = 0.01045;
  double ns_store_partial = 0.05493;
  double ns_store_partial_tf32 = 0.3384;
  double ns_store_scalar = 1.0;
  double ns_per_box = 129.3;    ///< ns per TMA store of a warp, however narrow its box
  double ns_activation = 0.18;  ///< any activation but relu, which is free

  // The epilogue, of an SM, where its blocks compute several tiles: in the first round all blocks
  // store at the same time, which takes equally long with all tiles.
  double ns_later_tma = 0.01717;     ///< per element
  double ns_direct_row = 4.516;      ///< for the ends of a tile's row of 16-bit elements
  double ns_direct_subtile = 2.383;  ///< and for each 64 columns of it

  // The same in every round: plain stores of tf32 results, per element.
  double ns_direct_tf32 = 0.1214;
  double ns_direct_tf32_transposed = 0.0509;

  // Memory, and overlap.
  double load_bytes_per_ns = 4643;     ///< B per ns for all SMs together
  double store_bytes_per_ns = 3440;    ///< the same for the result
  double partial_bytes_per_ns = 2470;  ///< the same for partial results, written and read
  double pack_bytes_per_ns = 3129;     ///< B per ns, read and written, of pack_kernel
  double overlap = 0.79;               ///< fraction of a shorter task hidden behind a longer one
};

/// Whether the activation takes more than an instruction or two.
bool is_costly(Activation activation);

int64_t k_tiles_of(const Problem& problem);
int64_t work_tiles_of(const Problem& problem, const Plan& plan);

/// Nanoseconds to read both operands from DRAM, once.
double operands_ns(const Problem& problem, const Plan& plan);

/// The expected time. A cluster computes `rounds` work tiles one after the other; the k-tiles of
/// each take as long as their wgmmas or their loads; the epilogue, DRAM and further launches add
/// up.
double expected_ns(const Problem& problem, const Plan& plan, int sm_count);

}  // namespace smem::gemm::sm90
