// The cost model: what heuristics.cpp expects an H200 to take.
//
// The constants were fitted to the times that bench/sweep.py measures on an H200: by a random
// search over all of them first, then by changing single ones (bench/NOTES.md). The fit asks for
// the right order of the tiles first and for the right times second, so a single constant is not a
// measurement of the hardware. With these values the chosen tile is 0.9% slower than the best one
// (geometric mean of 348 problems with two to thirteen tiles each).
#pragma once

#include "gemm/sm90/heuristics.h"

namespace smem::gemm::sm90 {

/// Times are in nanoseconds. "Factor" is a dimensionless multiplier of a time.
struct CostModel {
  // The mainloop, per SM.
  double flops_per_ns = 7610;       ///< FLOP per ns of an SM, under the power limit
  double ns_per_row = 0.95;         ///< ns to load one row of 128 bytes from L2 by TMA
  double two_lines_factor = 1.4;    ///< rows that span two cache lines
  double sectors_factor = 2.2;      ///< rows that also begin within a 32-byte sector
  double ns_per_wgmma_chain = 120;  ///< ns for the 4 dependent wgmmas of a k-tile, at least
  double ns_load_latency = 1240;    ///< ns from a load to its data; a tile's stages share it
  double narrow_factor = 1.5;       ///< mma_n <= 64 with two warpgroups, which each read B
  double narrow_tf32_factor = 1.4;
  double medium_tf32_factor = 1.2;    ///< mma_n <= 128 with two warpgroups, tf32
  double ns_per_accum_interval = 50;  ///< ns to add one accumulator to another
  double ns_per_accum_interval_tf32 = 500;

  // Launches and work tiles.
  double ns_launch = 3820;          ///< ns for launch, first loads and end of a kernel
  double ns_cluster_launch = 1210;  ///< ns more for a kernel with clusters
  double ns_code_per_accum = 22.9;  ///< ns per accumulator of a thread: longer, uncached code
  double ns_per_work_tile = 266;    ///< ns between two work tiles of a cluster
  double ns_next_launch = 3550;     ///< ns for each further launch

  // The epilogue, per element and warpgroup.
  double ns_store_tma = 0.035;
  double ns_store_partial = 0.2;
  double ns_store_partial_tf32 = 0.4;
  double ns_store_scalar = 1.0;
  double ns_per_box = 79;          ///< ns per TMA store of a warp, however narrow its box
  double ns_direct_row = 4;        ///< ns of an SM for the ends of a tile's row, by plain stores
  double ns_direct_subtile = 5.5;  ///< and for each 64 columns of it
  double ns_activation = 0.18;     ///< any activation but relu, which is free

  // Memory, and overlap.
  double dram_bytes_per_ns = 4480;  ///< B per ns for all SMs together
  double pack_bytes_per_ns = 2108;  ///< B per ns, read and written, of pack_kernel
  double overlap = 0.79;            ///< fraction of a shorter task hidden behind a longer one
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
