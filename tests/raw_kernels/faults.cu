// Device functions with one fault each, and their twins without it: `function<true>` is faulty.
//
// A comment `FAULT: name` marks the line where `name` must be found at fault. The kernel at the end
// calls one of them, so that all are compiled at once.
#include <cuda_pipeline.h>

constexpr unsigned ALL_LANES = 0xffffffffu, LOW_HALF = 0xffffu, HIGH_HALF = 0xffff0000u;
constexpr int COLS = 1024;  // floats of `in` and of `out`

extern __shared__ float dynamic_row[];

// ------------------------------------------------------------------------------ wrong addresses

template <bool FAULTY>
__device__ void shared_out_of_bounds(const float*, float* out) {
  __shared__ float row[32];
  const int t = threadIdx.x;
  row[FAULTY ? t + 1 : t] = 1.0f;  // FAULT: shared_out_of_bounds
  if (!FAULTY) out[t] = row[t];
}

template <bool FAULTY>
__device__ void dynamic_shared_out_of_bounds(const float*, float*) {
  dynamic_row[threadIdx.x + (FAULTY ? 1 : 0)] = 1.0f;  // FAULT: dynamic_shared_out_of_bounds
}

template <bool FAULTY>
__device__ void global_out_of_bounds(const float* in, float* out) {
  out[threadIdx.x] = in[COLS - 32 + threadIdx.x + (FAULTY ? 1 : 0)];  // FAULT: global_out_of_bounds
}

template <bool FAULTY>
__device__ void before_the_begin(const float*, float* out) {
  out[static_cast<int>(threadIdx.x) - (FAULTY ? 1 : 0)] = 1.0f;  // FAULT: before_the_begin
}

template <bool FAULTY>
__device__ void null_pointer(const float* in, float* out) {
  const float* from = FAULTY ? nullptr : in;
  out[threadIdx.x] = from[threadIdx.x];  // FAULT: null_pointer
}

template <bool FAULTY>
__device__ void misaligned_global(const float* in, float* out) {
  const int col = 4 * threadIdx.x;
  const float* from = in + (FAULTY ? col + 1 : col);
  const float4 x = *reinterpret_cast<const float4*>(from);  // FAULT: misaligned_global
  *reinterpret_cast<float4*>(out + col) = x;
}

template <bool FAULTY>
__device__ void misaligned_shared(const float* in, float*) {
  __shared__ __align__(16) float tile[132];
  const int col = 4 * threadIdx.x;
  const float4 x = *reinterpret_cast<const float4*>(in + col);
  *reinterpret_cast<float4*>(tile + (FAULTY ? col + 2 : col)) = x;  // FAULT: misaligned_shared
}

/// cp.async needs 16-byte addresses however few of the 16 bytes it reads.
template <bool FAULTY>
__device__ void misaligned_copy(const float* in, float*) {
  __shared__ __align__(16) float tile[128];
  const int col = 4 * threadIdx.x;
  __pipeline_memcpy_async(tile + col, in + (FAULTY ? col + 1 : col), 16);  // FAULT: misaligned_copy
  __pipeline_commit();
  __pipeline_wait_prior(0);
}

// --------------------------------------------------------------------- values that are not there

template <bool FAULTY>
__device__ void uninitialised(const float*, float* out) {
  __shared__ float row[32];
  const int t = threadIdx.x;
  if (!FAULTY || t != 7) row[t] = 1.0f;
  __syncthreads();
  out[t] = row[t];  // FAULT: uninitialised
}

template <bool FAULTY>
__device__ void copy_without_wait(const float* in, float* out) {
  __shared__ __align__(16) float tile[128];
  const int t = threadIdx.x;
  __pipeline_memcpy_async(tile + 4 * t, in + 4 * t, 16);
  __pipeline_commit();
  if (!FAULTY) __pipeline_wait_prior(0);
  __syncthreads();
  out[t] = tile[127 - t];  // FAULT: copy_without_wait
}

/// The newest group is still on its way.
template <bool FAULTY>
__device__ void copy_of_the_wrong_group(const float* in, float* out) {
  __shared__ float tile[2][32];
  const int t = threadIdx.x;
  for (int stage = 0; stage < 2; ++stage) {
    __pipeline_memcpy_async(&tile[stage][t], in + t, 4);
    __pipeline_commit();
  }
  __pipeline_wait_prior(1);
  __syncthreads();
  out[t] = tile[FAULTY ? 1 : 0][t];  // FAULT: copy_of_the_wrong_group
}

template <bool FAULTY>
__device__ void copy_without_barrier(const float* in, float* out) {
  __shared__ float tile[64];
  const int t = threadIdx.x;
  __pipeline_memcpy_async(tile + t, in + t, 4);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  if (!FAULTY) __syncthreads();
  out[t] = tile[t < 32 ? t : t - 32];  // FAULT: copy_without_barrier
}

template <bool FAULTY>
__device__ void overwritten_copy(const float* in, float*) {
  __shared__ float row[32];
  const int t = threadIdx.x;
  __pipeline_memcpy_async(row + t, in + t, 4);
  __pipeline_commit();
  if (!FAULTY) __pipeline_wait_prior(0);
  row[t] = 0.0f;  // FAULT: overwritten_copy
}

// ---------------------------------------------------------------------------------------- races

/// Each lane reads what the lane below it stored.
template <bool FAULTY>
__device__ void race_in_warp(const float*, float* out) {
  __shared__ float row[32];
  const int t = threadIdx.x;
  row[t] = 1.0f;
  if (!FAULTY) __syncwarp();
  if (t > 0) out[t] = row[t - 1];  // FAULT: race_in_warp
}

/// A shuffle orders registers, not memory.
template <bool FAULTY>
__device__ void race_across_shuffle(const float*, float* out) {
  __shared__ float row[32];
  const int t = threadIdx.x;
  row[t] = 1.0f;
  const float x = __shfl_sync(ALL_LANES, 1.0f, t);
  if (!FAULTY) __syncwarp();
  if (t > 0) out[t] = x + row[t - 1];  // FAULT: race_across_shuffle
}

/// Only lanes that name each other are ordered.
template <bool FAULTY>
__device__ void race_between_masks(const float*, float* out) {
  __shared__ float row[32];
  const int t = threadIdx.x;
  row[t] = 1.0f;
  __syncwarp(!FAULTY ? ALL_LANES : t < 16 ? LOW_HALF : HIGH_HALF);
  if (t > 0) out[t] = row[t - 1];  // FAULT: race_between_masks
}

template <bool FAULTY>
__device__ void race_between_warps(const float*, float* out) {
  __shared__ float row[32];
  const int t = threadIdx.x;
  if (t < 32) row[t] = 1.0f;
  __syncwarp();
  if (!FAULTY) __syncthreads();
  if (t >= 32) out[t] = row[t - 32];  // FAULT: race_between_warps
}

/// Read by both warps, then overwritten by one, which has only waited for itself.
template <bool FAULTY>
__device__ void race_with_early_reader(const float*, float* out) {
  __shared__ float row[32];
  const int t = threadIdx.x;
  if (t < 32) row[t] = 1.0f;
  __syncthreads();
  out[t] = row[3];
  __syncwarp();
  if (!FAULTY) __syncthreads();
  if (t == 32) row[3] = 2.0f;  // FAULT: race_with_early_reader
}

template <bool FAULTY>
__device__ void race_of_two_stores(const float*, float* out) {
  __shared__ float tile[64];
  const int t = threadIdx.x;
  tile[FAULTY ? t % 32 : t] = t;  // FAULT: race_of_two_stores
  __syncthreads();
  out[t] = tile[0];
}

/// Atomic operations do not race with each other, but a plain load does with them.
template <bool FAULTY>
__device__ void race_with_an_atomic(const float*, float* out) {
  __shared__ int count;
  const int t = threadIdx.x;
  if (t == 0) count = 0;
  __syncthreads();
  atomicAdd(&count, 1);
  if (!FAULTY) __syncthreads();
  if (t == 40) out[t] = count;  // FAULT: race_with_an_atomic
}

// ------------------------------------------------------------------------- barriers and shuffles

template <bool FAULTY>
__device__ void early_return(const float*, float*) {
  if (FAULTY && threadIdx.x >= 576) return;
  __syncthreads();  // FAULT: early_return
}

template <bool FAULTY>
__device__ void barrier_in_if(const float*, float*) {
  if (!FAULTY || threadIdx.x % 2 == 0) {
    __syncthreads();  // FAULT: barrier_in_if
  }
}

template <bool FAULTY>
__device__ void two_barriers(const float*, float*) {
  if (FAULTY && threadIdx.x < 32) {
    __syncthreads();  // FAULT: two_barriers
  } else {
    __syncthreads();
  }
}

template <bool FAULTY>
__device__ void shuffle_with_ended_lanes(const float*, float* out) {
  const int t = threadIdx.x;
  if (FAULTY && t >= 24) return;
  out[t] = __shfl_down_sync(ALL_LANES, 1.0f, 4);  // FAULT: shuffle_with_ended_lanes
}

template <bool FAULTY>
__device__ void shuffle_from_outside_mask(const float*, float* out) {
  const int t = threadIdx.x;
  if (t >= 16) return;
  const int source = FAULTY && t == 5 ? 20 : 3;
  out[t] = __shfl_sync(LOW_HALF, 1.0f, source);  // FAULT: shuffle_from_outside_mask
}

template <bool FAULTY>
__device__ void lane_outside_its_mask(const float*, float*) {
  __syncwarp(FAULTY ? ~(1u << 9) : ALL_LANES);  // FAULT: lane_outside_its_mask
}

template <bool FAULTY>
__device__ void different_masks(const float*, float*) {
  const unsigned mask = FAULTY && threadIdx.x == 4 ? LOW_HALF : ALL_LANES;
  __syncwarp(mask);  // FAULT: different_masks
}

template <bool FAULTY>
__device__ void deadlock(const float*, float* out) {
  const int t = threadIdx.x;
  float x = 1;
  if (!FAULTY || t < 20) {
    x = __shfl_sync(ALL_LANES, x, 0);
  }
  __syncthreads();  // FAULT: deadlock
  out[t] = x;
}

// ---------------------------------------------------------------------------------- endless loops

template <bool FAULTY>
__device__ void endless_loop(const float* in, float* out) {
  int i = 0;
  while (i < 10) i += in[threadIdx.x] > (FAULTY ? 2 : 0);  // FAULT: endless_loop
  out[threadIdx.x] = i;
}

/// No access to memory in it.
template <bool FAULTY>
__device__ void endless_computation(const float*, float* out) {
  unsigned x = threadIdx.x;
  while (FAULTY ? x != 1u << 31 : x < 100) x = 2 * x + 1;  // FAULT: endless_computation
  out[threadIdx.x] = x;
}

template <bool FAULTY>
__device__ void empty_loop(const float*, float*) {
  while (FAULTY) {
  }
}

template <bool FAULTY>
__noinline__ __device__ float depth(const float* in, int levels) {  // FAULT: endless_recursion
  const float x = in[levels & 15];
  return FAULTY || levels < 20 ? depth<FAULTY>(in, levels + 1) + x : x;
}

template <bool FAULTY>
__device__ void endless_recursion(const float* in, float* out) {
  out[threadIdx.x] = depth<FAULTY>(in, 0);
}

// -------------------------------------------------------------- what the processor refuses to do

template <bool FAULTY>
__device__ void division_by_zero(const float* in, float* out) {
  const int t = threadIdx.x, divisor = static_cast<int>(in[t]) - (FAULTY && t == 7);
  out[t] = 10 / divisor;  // FAULT: division_by_zero
}

template <bool FAULTY>
__device__ void remainder_that_overflows(const float* in, float* out) {
  const int divisor = static_cast<int>(in[0]) * (FAULTY ? -1 : 3);
  out[threadIdx.x] = (-2147483647 - 1) % divisor;  // FAULT: remainder_that_overflows
}

template <bool FAULTY>
__device__ void local_array_out_of_bounds(const float* in, float* out) {
  float local[8] = {};
  // 4 TiB below the stacks, where no process has memory.
  const long long at = FAULTY && threadIdx.x == 31 ? -(1LL << 40) : 3;
  local[at + static_cast<int>(in[0])] = 1;  // FAULT: local_array_out_of_bounds
  out[threadIdx.x] = local[static_cast<int>(in[1])];
}

template <bool FAULTY>
__device__ void no_function(const float* in, float* out) {
  float (*function)(float) = FAULTY && in[0] > 0 ? nullptr : sqrtf;
  out[threadIdx.x] = function(4);  // FAULT: no_function
}

template <bool FAULTY>
__device__ void cleared_out_of_bounds(const float*, float* out) {
  memset(out + 512, 0, FAULTY ? 2052 : 2048);  // FAULT: cleared_out_of_bounds
}

template <bool FAULTY>
__device__ void copied_out_of_bounds(const float* in, float* out) {
  const int t = threadIdx.x;
  memcpy(out + t, in + 4 * t + 897, FAULTY ? 16 : 12);  // FAULT: copied_out_of_bounds
}

// ------------------------------------------------------------------- right, though it looks wrong

/// Each half of a warp shuffles on its own before all lanes meet.
__device__ void halves_of_a_warp(const float*, float* out) {
  __shared__ float row[32];
  const int t = threadIdx.x;
  float x = 1;
  if (t < 16) {
    for (int offset = 8; offset > 0; offset /= 2) x += __shfl_xor_sync(LOW_HALF, x, offset);
  } else if (t < 24) {
    x = __shfl_sync(0xff0000u, x, 20);
  }
  row[t] = x;
  __syncwarp();
  out[t] = row[31 - t];
}

/// Dynamic shared memory that holds doubles first, floats behind them.
__device__ void two_types_in_dynamic_shared(const float*, float* out) {
  const int t = threadIdx.x;
  auto* const doubles = reinterpret_cast<double*>(dynamic_row);
  auto* const floats = dynamic_row + 64;
  doubles[t] = 1.0;
  floats[t] = 2.0f;
  out[t] = static_cast<float>(doubles[t]) + floats[t];
}

/// A barrier between any two blocks' uses of the same memory is not needed: they do not share it.
__device__ void every_block_its_own(const float*, float* out) {
  __shared__ float row[32];
  const int t = threadIdx.x;
  if (t == static_cast<int>(blockIdx.x)) row[0] = 1.0f;
  __syncthreads();
  out[blockIdx.x % 2 * 32 + t] = row[0];
}

/// Whole warps may return before the others shuffle, and after the last barrier.
__device__ void warps_that_return(const float*, float* out) {
  const int t = threadIdx.x;
  __syncthreads();
  if (t >= 32) return;
  out[t] = __shfl_down_sync(ALL_LANES, 1.0f, 1);
}

/// The second warp has 16 lanes, and some of the first have ended: a mask may name them.
__device__ void part_of_a_warp(const float*, float* out) {
  const int t = threadIdx.x;
  if (t >= 24 && t < 32) return;
  const unsigned ballot = __ballot_sync(ALL_LANES, t % 2);
  __syncwarp();
  out[t] = __shfl_xor_sync(ALL_LANES, static_cast<float>(ballot), 1);
}

// ------------------------------------------------------------------------------------------ table

__global__ void call(int which, bool faulty, const float* in, float* out) {
#define PAIR(number, function) \
  case number:                 \
    return faulty ? function<true>(in, out) : function<false>(in, out);
#define SOUND(number, function) \
  case number:                  \
    return function(in, out);
  switch (which) {
    PAIR(0, shared_out_of_bounds)
    PAIR(1, dynamic_shared_out_of_bounds)
    PAIR(2, global_out_of_bounds)
    PAIR(3, before_the_begin)
    PAIR(4, null_pointer)
    PAIR(5, misaligned_global)
    PAIR(6, misaligned_shared)
    PAIR(7, misaligned_copy)
    PAIR(8, uninitialised)
    PAIR(9, copy_without_wait)
    PAIR(10, copy_of_the_wrong_group)
    PAIR(11, copy_without_barrier)
    PAIR(12, overwritten_copy)
    PAIR(13, race_in_warp)
    PAIR(14, race_across_shuffle)
    PAIR(15, race_between_masks)
    PAIR(16, race_between_warps)
    PAIR(17, race_with_early_reader)
    PAIR(18, race_of_two_stores)
    PAIR(19, race_with_an_atomic)
    PAIR(20, early_return)
    PAIR(21, barrier_in_if)
    PAIR(22, two_barriers)
    PAIR(23, shuffle_with_ended_lanes)
    PAIR(24, shuffle_from_outside_mask)
    PAIR(25, lane_outside_its_mask)
    PAIR(26, different_masks)
    PAIR(27, deadlock)
    PAIR(28, endless_loop)
    PAIR(29, endless_computation)
    PAIR(30, endless_recursion)
    PAIR(31, empty_loop)  // FAULT: empty_loop
    SOUND(32, halves_of_a_warp)
    SOUND(33, two_types_in_dynamic_shared)
    SOUND(34, every_block_its_own)
    SOUND(35, warps_that_return)
    SOUND(36, part_of_a_warp)
    PAIR(37, division_by_zero)
    PAIR(38, remainder_that_overflows)
    PAIR(39, local_array_out_of_bounds)
    PAIR(40, no_function)
    PAIR(41, cleared_out_of_bounds)
    PAIR(42, copied_out_of_bounds)
  }
}
