// The cost model: what heuristics.cpp expects a GPU to take.
//
// The rates come from NVIDIA's documents (white papers of GA100, GA102, AD102 and GH100, data
// sheets of A100, A10, L4 and H200); mma's rate on the H200 is measured. The other constants are
// fitted to 236 problems in bfloat16 and tf32 on an H200, with seven tiles each (bench/NOTES.md).
// On other GPUs they are what is derived, not measured.
#pragma once

#include "gemm/sm80/heuristics.h"

namespace smem::gemm::sm80 {

/// The rates of a family of GPUs. One stands for all of a compute capability.
struct GpuRates {
  int capability;            ///< the first that the row stands for
  double clock;              ///< cycles per ns
  double cycles_per_mma;     ///< of a sub-partition, for m16n8k16 with float32 accumulators
  int fma_per_cycle;         ///< of an SM, in float32
  double dram_bytes_per_ns;  ///< for all SMs together
  int shared_bytes_per_sm;
};

/// Times are in nanoseconds or cycles. "Factor" is a dimensionless multiplier of a time.
struct CostModel {
  double ns_launch = 3750;              ///< ns for launch and end of a kernel
  double ns_next_launch = 3000;         ///< ns for each further launch
  double cycles_fill = 3500;            ///< cycles until a block's first stage has landed
  double cycles_latency = 1850;         ///< cycles of a load, which the stages in flight hide
  double cycles_per_step = 58;          ///< cycles of a dependent mma along K
  double cycles_per_barrier = 20;       ///< cycles of a k-tile's barrier
  double cycles_per_element = 0.18;     ///< cycles of an SM to store one element of out
  double shared_bytes_per_cycle = 128;  ///< of an SM
  double copy_factor = 1.4;             ///< of the time that cp.async occupies shared memory
  double overlap = 0.8;                 ///< fraction of a shorter task hidden behind a longer one
};

const GpuRates& rates_of(const Device& device);

/// How many products of float16 an SM adds by mma.sync in the time of one float32 FMA.
constexpr double mma_per_fma(const GpuRates& rates) {
  constexpr double SUB_PARTITIONS = 4, PRODUCTS = 16 * 8 * 16;
  return SUB_PARTITIONS * PRODUCTS / rates.cycles_per_mma / rates.fma_per_cycle;
}

/// The blocks of a tile that an SM of the device holds.
int blocks_per_sm(const TileConfig& tile, const GpuRates& rates);

/// The expected time. An SM computes its blocks as many at a time as it holds. Together they take
/// as long as their mma or their shared memory; each takes at least as long as its loads and its
/// chain of mma. The fill, the epilogue, DRAM and further launches add up.
double expected_ns(const Problem& problem, const Plan& plan, const Device& device);

}  // namespace smem::gemm::sm80
