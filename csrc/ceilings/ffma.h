// How fast the chip makes float32 multiply-adds when nothing else is asked of it: the ceiling that
// `bench` holds the GEMM kernels against.
#pragma once

#include <cstdint>

#include "device/launch.h"

namespace smem::ceilings {

constexpr int FFMA_THREADS = 256;  ///< a block
constexpr int FFMAS_A_ROUND = 64;  ///< a thread

struct FfmaProblem {
  float* out;       ///< one element a thread: a sum that the compiler must not drop
  int64_t threads;  ///< a multiple of FFMA_THREADS
  int rounds;
};

void launch_ffma(const FfmaProblem& problem, const Device& device);

}  // namespace smem::ceilings
