// The rates of GPUs, for cost models and for the choice between kernels.
//
// They come from NVIDIA's documents (white papers of GA100, GA102, AD102 and GH100, data sheets of
// A100, A10, L4 and H200); mma's rate on the H200 is measured.
#pragma once

#include <initializer_list>

#include "device/launch.h"

namespace smem::gemm {

constexpr int SUB_PARTITIONS = 4;  ///< of an SM

/// The rates of a family of GPUs. One stands for all of a compute capability.
struct GpuRates {
  int capability;            ///< the first that the row stands for
  double clock;              ///< cycles per ns
  double cycles_per_mma;     ///< of a sub-partition, for m16n8k16 with float32 accumulators
  int fma_per_cycle;         ///< of an SM, in float32
  double dram_bytes_per_ns;  ///< for all SMs together
  int shared_bytes_per_sm;
};

const GpuRates& rates_of(const Device& device);

/// How many products of float16 an SM adds by mma.sync in the time of one float32 FMA.
constexpr double mma_per_fma(const GpuRates& rates) {
  constexpr double PRODUCTS = 16 * 8 * 16;
  return SUB_PARTITIONS * PRODUCTS / rates.cycles_per_mma / rates.fma_per_cycle;
}

/// The time of tasks that run at the same time: the longest, and of the others what is not hidden
/// behind it. `overlap` is the fraction that is.
double overlapped(double overlap, std::initializer_list<double> times);

}  // namespace smem::gemm
