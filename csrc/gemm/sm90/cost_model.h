// The cost model: what heuristics.cpp expects a Hopper GPU to take.
//
// The constants were fitted, together with those of sm80/cost_model.h, to the times of all tiles on
// an H200 (bench/NOTES.md), by a random search from an earlier fit on an H100. The fit asks for the
// right order of the tiles, also of `mma`'s, so a single constant is not a measurement of the
// hardware. Memory's rates are between those of the two GPUs. Older values stayed for
// two_lines_factor, sectors_factor, ns_cluster_launch, overlap and ns_activation.
#pragma once

#include "gemm/sm90/heuristics.h"

namespace smem::gemm::sm90 {

/// Times are in nanoseconds. "Factor" is a dimensionless multiplier of a time.
struct CostModel {
  // The mainloop, per SM.
  double flops_per_ns = 9293;             ///< FLOP per ns of an SM
  double ns_per_row = 0.9068;             ///< ns to load one row of 128 bytes from L2 by TMA
  double two_lines_factor = 1.137;        ///< rows that span two cache lines
  double sectors_factor = 1.9;            ///< rows that also begin within a 32-byte sector
  double ns_per_wgmma_chain = 119.1;      ///< ns for the 4 dependent wgmmas of a k-tile, at least
  double ns_per_narrow_wgmma_chain = 90;  ///< the same for mma_n <= 32
  double ns_load_latency = 1698;          ///< ns from a load to its data; a tile's stages share it
  double latency_overlap = 0.8579;        ///< as overlap, of that and the other work of a k-tile
  double narrow_factor = 1.896;           ///< mma_n <= 64 with two warpgroups, which each read B
  double narrow_tf32_factor = 1.996;
  double medium_tf32_factor = 1.15;      ///< mma_n <= 128 with two warpgroups, tf32
  double ns_per_accum_interval = 20.85;  ///< ns to add one accumulator to another
  double ns_per_accum_interval_tf32 = 545.1;

  // Launches and work tiles. Further launches begin while the kernel before ends (device/pdl.h).
  double ns_launch = 3117;           ///< ns for launch, first loads and end of a kernel
  double ns_cluster_launch = 1210;   ///< ns more for a kernel with clusters
  double ns_code_per_accum = 23.08;  ///< ns per accumulator of a thread: longer, uncached code
  double ns_per_work_tile = 566.7;   ///< ns between two work tiles of a cluster
  double ns_reduce_launch = 1006;    ///< ns for the reduction of split-K
  double ns_pack_launch = 1801;      ///< ns for the kernel that packs operands

  // The epilogue, per element and warpgroup.
  double ns_store_tma = 0.009966;
  double ns_store_partial = 0.03981;
  double ns_store_partial_tf32 = 0.1493;
  double ns_store_scalar = 1.002;
  double ns_per_box = 94.05;    ///< ns per TMA store of a warp, however narrow its box
  double ns_activation = 0.18;  ///< any activation but relu, which is free

  // The epilogue, of an SM, where its blocks compute several tiles: in the first round all blocks
  // store at the same time, which takes equally long with all tiles.
  double ns_later_tma = 0.01448;     ///< per element
  double ns_direct_row = 4.588;      ///< for the ends of a tile's row of 16-bit elements
  double ns_direct_subtile = 2.472;  ///< and for each 64 columns of it

  // The same in every round: plain stores of tf32 results, per element.
  double ns_direct_tf32 = 0.07784;
  double ns_direct_tf32_transposed = 0.0545;

  // Memory, and overlap.
  double load_bytes_per_ns = 5672;      ///< B per ns for all SMs together
  double store_bytes_per_ns = 4019;     ///< the same for the result
  double bytes_per_split_sector = 130;  ///< B of whole sectors that take as long as such a part
  double partial_bytes_per_ns = 1688;   ///< the same for partial results, written and read
  double pack_bytes_per_ns = 3724;      ///< B per ns, read and written, of pack_kernel
  double overlap = 0.79;                ///< fraction of a shorter task hidden behind a longer one
};

/// Whether the activation takes more than an instruction or two.
bool is_costly(Activation activation);

int64_t k_tiles_of(const Problem& problem);
int64_t work_tiles_of(const Problem& problem, const Plan& plan);

/// Whether rows of out begin within sectors.
bool rows_split_sectors(const Problem& problem);

/// Nanoseconds to read both operands from DRAM, once.
double operands_ns(const Problem& problem, const Plan& plan);

/// The expected time. A cluster computes `rounds` work tiles one after the other; the k-tiles of
/// each take as long as their wgmmas or their loads; the epilogue, DRAM and further launches add
/// up.
double expected_ns(const Problem& problem, const Plan& plan, int sm_count);

}  // namespace smem::gemm::sm90
