// The cost model: what heuristics.cpp expects a GPU to take.
//
// The rates come from NVIDIA's documents (white papers of GA100, GA102, AD102 and GH100, data
// sheets of A100, A10, L4 and H200); mma's rate on the H200 is measured. The other constants are
// estimates that no measurement has fitted yet (bench/NOTES.md), so the order of the tiles is what
// to expect of the model, and not the time.
#pragma once

#include "gemm/sm80/heuristics.h"

namespace smem::gemm::sm80 {

/// The rates of a family of GPUs. One stands for all of a compute capability.
struct GpuRates {
  int capability;             ///< the first that the row stands for
  double clock;               ///< cycles per ns
  double cycles_per_mma;      ///< of a sub-partition, for m16n8k16 with float32 accumulators
  double dram_bytes_per_ns;   ///< for all SMs together
  double l2_bytes_per_cycle;  ///< that an SM reads from L2
  int shared_bytes_per_sm;
};

/// Times are in nanoseconds or cycles. "Factor" is a dimensionless multiplier of a time.
struct CostModel {
  double ns_launch = 3000;          ///< ns for launch and end of a kernel
  double ns_next_launch = 3000;     ///< ns for each further launch
  double cycles_fill = 1500;        ///< cycles until a block's first stage has landed
  double cycles_per_k_tile = 60;    ///< cycles of a k-tile's barrier, where one block is on an SM
  double cycles_per_element = 0.1;  ///< cycles of an SM to store one element of out
  double shared_bytes_per_cycle = 128;  ///< of an SM
  double mainloop_share = 0.8;          ///< share of mma's rate that a mainloop sustains
  double overlap = 0.8;                 ///< fraction of a shorter task hidden behind a longer one
};

const GpuRates& rates_of(const Device& device);

/// The blocks of a tile that an SM of the device holds.
int blocks_per_sm(const TileConfig& tile, const GpuRates& rates);

/// The expected time. An SM computes its blocks as many at a time as it holds; each takes as long
/// as its mma, its shared memory or its reads from L2; the fill, the epilogue, DRAM and further
/// launches add up.
double expected_ns(const Problem& problem, const Plan& plan, const Device& device);

}  // namespace smem::gemm::sm80
