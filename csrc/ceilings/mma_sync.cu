// A warp holds the fragments of a 64 x 64 tile in registers, as a warp of `mma` does, and
// multiplies them again and again: 32 independent accumulator tiles, so that no mma waits for the
// one before. Memory is accessed only at the end.
//
// The elements are integers from -3 to 3, so all sums are exact up to 2^24: 100,000 rounds.
//
// What may be changed safely: COUNT_M and COUNT_N, with MMA_SYNCS_PER_ROUND.
#include "ceilings/mma_sync.h"
#include "device/mma.h"
#include "device/target.h"

namespace smem::ceilings {

namespace {

constexpr int COUNT_M = 4, COUNT_N = 8;
static_assert(COUNT_M * COUNT_N == MMA_SYNCS_PER_ROUND, "one mma for each accumulator tile");

/// The bits of element `index` of a lane's fragments. Different ones for A and B: `seed`.
template <typename T>
__device__ __forceinline__ unsigned element_bits(int index, int seed) {
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const auto value = static_cast<float>((seed * lane + 5 * index) % 7 - 3);
  if constexpr (sizeof(T) == 4) {
    return __float_as_uint(value);
  } else {
    return __float_as_uint(value) >> 16;
  }
}

/// Register `index` of a lane's fragments.
template <typename T>
__device__ __forceinline__ unsigned fragment_bits(int index, int seed) {
  if constexpr (sizeof(T) == 4) return element_bits<T>(index, seed);
  return element_bits<T>(2 * index, seed) | element_bits<T>(2 * index + 1, seed) << 16;
}

template <typename T>
__global__ void __launch_bounds__(launch_bound(TARGET_HAS_SM80, MMA_SYNC_THREADS), 1)
    mma_sync_kernel(const __grid_constant__ MmaSyncProblem problem) {
  if constexpr (TARGET_HAS_SM80) {
    constexpr int SEED_A = 11, SEED_B = 13;
    unsigned a[COUNT_M][4], b[COUNT_N][2];
    float accum[COUNT_M][COUNT_N][4] = {};
#pragma unroll
    for (int i = 0; i < COUNT_M; ++i) {
#pragma unroll
      for (int r = 0; r < 4; ++r) a[i][r] = fragment_bits<T>(4 * i + r, SEED_A);
    }
#pragma unroll
    for (int j = 0; j < COUNT_N; ++j) {
#pragma unroll
      for (int r = 0; r < 2; ++r) b[j][r] = fragment_bits<T>(2 * j + r, SEED_B);
    }
#pragma unroll 4
    for (int round = 0; round < problem.rounds; ++round) {
#pragma unroll
      for (int i = 0; i < COUNT_M; ++i) {
#pragma unroll
        for (int j = 0; j < COUNT_N; ++j) mma_sync<T>(accum[i][j], a[i], b[j][0], b[j][1]);
      }
    }
    float sum = 0;
#pragma unroll
    for (int i = 0; i < COUNT_M; ++i) {
#pragma unroll
      for (int j = 0; j < COUNT_N; ++j) {
#pragma unroll
        for (const float value : accum[i][j]) sum += value;
      }
    }
    problem.out[int64_t{blockIdx.x} * MMA_SYNC_THREADS + threadIdx.x] = sum;
  }
}

}  // namespace

void launch_mma_sync(const MmaSyncProblem& problem, const Device& device) {
  launch("mma_sync", problem.is_tf32 ? mma_sync_kernel<float> : mma_sync_kernel<bfloat16>,
         {problem.threads / MMA_SYNC_THREADS, {MMA_SYNC_THREADS}}, device, problem);
}

}  // namespace smem::ceilings
