// Each thread executes 8 independent chains of dependent FFMAs in registers, and accesses memory
// only at the end. An FFMA has a latency of 4 cycles and a scheduler issues one per cycle, so even
// a single warp with 8 chains keeps it busy.
//
// An H200 reaches 66.0 TFLOP/s, 98.7% of cores x 2 x clock. It reaches 62.9 TFLOP/s if the loop has
// 64 FFMAs per iteration instead of 512.
//
// What may be changed safely: CHAINS (a divisor of FFMAS_PER_ROUND) and the unrolling.
#include "ceilings/ffma.h"

namespace smem::ceilings {

namespace {

constexpr int CHAINS = 8;

__global__ void __launch_bounds__(FFMA_THREADS)
    ffma_kernel(const __grid_constant__ FfmaProblem problem) {
  const int64_t thread = int64_t{blockIdx.x} * FFMA_THREADS + threadIdx.x;
  float x[CHAINS];
#pragma unroll
  for (int c = 0; c < CHAINS; ++c) x[c] = static_cast<float>(threadIdx.x + c);
  // The factor is unknown at compile time, or the compiler would evaluate the chains. |factor| < 1
  // keeps x finite.
  const float factor = 1.0f / static_cast<float>(problem.rounds + 1), addend = factor - 1.0f;
#pragma unroll 8
  for (int round = 0; round < problem.rounds; ++round) {
#pragma unroll
    for (int i = 0; i < FFMAS_PER_ROUND / CHAINS; ++i) {
#pragma unroll
      for (int c = 0; c < CHAINS; ++c) x[c] = fmaf(x[c], factor, addend);
    }
  }
  float sum = 0;
#pragma unroll
  for (int c = 0; c < CHAINS; ++c) sum += x[c];
  problem.out[thread] = sum;
}

}  // namespace

void launch_ffma(const FfmaProblem& problem, const Device& device) {
  launch("ffma", ffma_kernel, {problem.threads / FFMA_THREADS, {FFMA_THREADS}}, device, problem);
}

}  // namespace smem::ceilings
