#include "gemm/gpu_rates.h"

#include <algorithm>

namespace smem::gemm {
namespace {

// clang-format off
constexpr GpuRates RATES[] = {
    {.capability = 75, .clock = 1.59, .cycles_per_mma = 16, .fma_per_cycle = 64,
     .dram_bytes_per_ns = 320, .shared_bytes_per_sm = 64 * 1024},  // T4
    {.capability = 80, .clock = 1.41, .cycles_per_mma = 8, .fma_per_cycle = 64,
     .dram_bytes_per_ns = 1555, .shared_bytes_per_sm = 164 * 1024},  // A100
    {.capability = 86, .clock = 1.70, .cycles_per_mma = 16, .fma_per_cycle = 128,
     .dram_bytes_per_ns = 600, .shared_bytes_per_sm = 100 * 1024},  // A10, RTX 30
    {.capability = 89, .clock = 2.04, .cycles_per_mma = 16, .fma_per_cycle = 128,
     .dram_bytes_per_ns = 300, .shared_bytes_per_sm = 100 * 1024},  // L4, RTX 40
    {.capability = 90, .clock = 1.76, .cycles_per_mma = 6.4, .fma_per_cycle = 128,
     .dram_bytes_per_ns = 4480, .shared_bytes_per_sm = 228 * 1024},  // H100, H200
    {.capability = 120, .clock = 2.4, .cycles_per_mma = 16, .fma_per_cycle = 128,
     .dram_bytes_per_ns = 1792, .shared_bytes_per_sm = 100 * 1024},  // RTX 50
};
// clang-format on

}  // namespace

const GpuRates& rates_of(const Device& device) {
  const GpuRates* found = RATES;
  for (const GpuRates& rates : RATES) {
    if (rates.capability <= device.capability) found = &rates;
  }
  return *found;
}

double overlapped(double overlap, std::initializer_list<double> times) {
  double longest = 0, total = 0;
  for (const double time : times) {
    longest = std::max(longest, time);
    total += time;
  }
  return longest + (1 - overlap) * (total - longest);
}

}  // namespace smem::gemm
