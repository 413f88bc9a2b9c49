// The mma.sync ceiling: how fast the tensor cores execute mma.sync when nothing else limits it.
// `bench` states it beside the GEMM kernels; wgmma, which Hopper's own kernels use, is faster.
#pragma once

#include <cstdint>

#include "device/launch.h"

namespace smem::ceilings {

constexpr int MMA_SYNC_THREADS = 256;    ///< per block
constexpr int MMA_SYNCS_PER_ROUND = 32;  ///< per warp

struct MmaSyncProblem {
  float* out;       ///< one element per thread: a result, so that the compiler keeps the mmas
  int64_t threads;  ///< a multiple of MMA_SYNC_THREADS
  int rounds;
  bool is_tf32;  ///< m16n8k8 of tf32; else m16n8k16 of bfloat16
};

void launch_mma_sync(const MmaSyncProblem& problem, const Device& device);

}  // namespace smem::ceilings
