// The cost model: what heuristics.cpp expects a GPU to take for a plan.
#pragma once

#include "gemm/simt/heuristics.h"

namespace smem::gemm::simt {

/// Its constants, in nanoseconds, bytes and cycles. They and what TileConfig says of the tiles were
/// fitted to 12,000 times in CUDA graphs on an H100, of all tiles on 707 random problems; 128x128's
/// speeds are those of 75 larger problems on an H200 (bench/NOTES.md). Other GPUs have other times,
/// but mostly the same best plan.
struct CostModel {
  double clock = 1.98;               ///< cycles/ns
  double dram = 3360;                ///< bytes/ns, for all SMs
  double partials = 4200;            ///< bytes/ns of reading or writing partials, for all SMs
  double first_wave = 2540;          ///< ns: launch, first loads and end
  double next_wave = 1170;           ///< ns: first loads and end of a block that follows another
  double reduce_launch = 2820;       ///< ns: the second launch, which reduces the partials
  double pack_launch = 1660;         ///< ns: the launch that packs
  double pack_traffic = 2.2;         ///< DRAM time of a packed operand, in times of reading it once
  double reduce_block = 16;          ///< bytes/ns that a reducing block of 32 elements reads
  double f64 = 1.6;                  ///< factor of the cycles per k in tiles below 128x128
  double store_via_registers = 0.1;  ///< cycles more per element, for LayoutPair::via_registers
  double store_edge = 0.52;          ///< the same where 128x128 stores by single elements
  double store_edge_alone = 10'000;  ///< cycles more of one such tile
  double dynamic_mode = 1.06;        ///< factor of the cycles per k if B's load mode is dynamic
  double k_major = 1.09;             ///< the same for each operand read by vec16_along_k
  double scalar = 1.18;              ///< the same for each operand copied by single elements
  double dram_overlap = 0.5;         ///< share of the shorter of DRAM and SM time that adds
  double full_k_via_registers = 100;  ///< k from which store_via_registers counts fully
  double line = 0.39;                 ///< cycles of an SM for a cache line that a load touches, for
                                      ///< kernels whose loads go straight to registers
};

/// Bytes that the problem reads and writes at least.
double bytes_of(const Problem& problem);

/// The expected time of a plan for a problem of `bytes`. The launches add up. Beside them either
/// DRAM or the SMs are busy, and a share of the shorter of these times adds.
double expected_ns(const Problem& problem, const Device& device, const SimtPlan& plan,
                   double bytes);

}  // namespace smem::gemm::simt
