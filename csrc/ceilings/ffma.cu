// Chains of dependent multiply-adds in registers. An FFMA takes 4 cycles, a scheduler issues one a
// cycle: 8 chains a thread keep it busy with a single warp, and there are many. No memory is
// touched until the end. On an H200: 66.0 TFLOP/s, 98.7% of cores x 2 x clock; 62.9 if the loop
// came round after every 64 FFMAs instead of 512.
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
  // Known at run time only, or the compiler would do the sums itself. |factor| < 1 keeps x finite.
  const float factor = 1.0f / static_cast<float>(problem.rounds + 1), addend = factor - 1.0f;
#pragma unroll 8
  for (int round = 0; round < problem.rounds; ++round) {
#pragma unroll
    for (int i = 0; i < FFMAS_A_ROUND / CHAINS; ++i) {
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
