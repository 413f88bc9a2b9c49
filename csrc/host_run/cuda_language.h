// The CUDA words that the kernels use, given a meaning in plain C++.
#pragma once

#include <cmath>
#include <cstdint>

#include "host_run/host_run.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
// A worker thread of the operating system runs one block at a time, so what is local to the
// worker is shared by the block.
#define __shared__ static thread_local

#define threadIdx (::smem::host_run::current_thread->index)
#define blockIdx (::smem::host_run::current_thread->block_index)
#define blockDim (::smem::host_run::current_thread->block_threads)

using ::smem::host_run::dim3;

inline void __syncthreads() { ::smem::host_run::sync_threads(); }

inline void __syncwarp(unsigned mask = 0xffffffffu) { ::smem::host_run::sync_warp(mask); }

template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta) {
  return ::smem::host_run::shuffle(mask, value, ::smem::host_run::lane() + delta);
}
