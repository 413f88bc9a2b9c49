// The float32 FMA ceiling: how fast the GPU executes FFMA instructions when nothing else limits it.
// `bench` compares the GEMM kernels with it.
#pragma once

#include <cstdint>

#include "device/launch.h"

namespace smem::ceilings {

constexpr int FFMA_THREADS = 256;    ///< per block
constexpr int FFMAS_PER_ROUND = 64;  ///< per thread

struct FfmaProblem {
  float* out;       ///< one element per thread: a result, so that the compiler keeps the FFMAs
  int64_t threads;  ///< a multiple of FFMA_THREADS
  int rounds;
};

void launch_ffma(const FfmaProblem& problem, const Device& device);

}  // namespace smem::ceilings
