// The keywords of CUDA C++ and the variables of a thread.
#pragma once

#include "emulator_api.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
// raw_kernel/source.py replaces __noinline__: the C++ library has that word within attributes.
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __restrict__ __restrict
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)
#define __managed__
#define __constant__
// An operating-system thread runs one block at a time, so what is local to it is shared by the
// block. At the scope of a block `thread_local` implies `static`.
#define __shared__ thread_local

#define threadIdx smem_thread_index()
#define blockIdx smem_block_index()
#define blockDim smem_block_size()
#define gridDim smem_grid_size()
constexpr int warpSize = 32;

#define __syncthreads() smem_syncthreads()
#define __syncthreads_count(predicate) smem_syncthreads_reduce((predicate) != 0, smem_sum)
#define __syncthreads_and(predicate) smem_syncthreads_reduce((predicate) != 0, smem_and)
#define __syncthreads_or(predicate) smem_syncthreads_reduce((predicate) != 0, smem_or)

// Blocks of one grid see each other's writes at once here, so a fence only orders the compiler.
#define __threadfence() __asm__ __volatile__("" ::: "memory")
#define __threadfence_block() __threadfence()
#define __threadfence_system() __threadfence()

#define clock64() smem_clock()
#define __nanosleep(nanoseconds) ((void)(nanoseconds), smem_yield())
#define __trap() smem_fault("trap", "the kernel calls __trap")
#define __brkpt() ((void)0)
#define __builtin_assume(condition) ((void)0)
#define __prof_trigger(counter) ((void)0)
