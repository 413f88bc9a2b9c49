// shuffle: a block sums its elements by warp shuffles.
//
// A step after tree: __shfl_down_sync moves a register from lane to lane without memory and without
// a barrier. Each warp adds its 32 partials in 5 steps, and the first warp then adds the partials
// of the warps. That takes one barrier instead of 8, and 8 words of shared memory instead of 256.
#include "reduce/output_split.h"
#include "reduce/reduction_tree.h"

namespace smem::reduce::inline SMEM_BUILD {

/// The sum over the warp, in lane 0. The offsets are 16, 8, 4, 2, 1.
template <typename Acc>
__device__ __forceinline__ Acc warp_sum(Acc sum) {
  for (unsigned offset = 16; offset > 0; offset /= 2) {
    sum += __shfl_down_sync(FULL_WARP_MASK, sum, offset);
  }
  return sum;
}

template <typename T>
__global__ void __launch_bounds__(MAX_THREADS)
    shuffle_kernel(const __grid_constant__ Problem problem) {
  __shared__ Accumulator<T> partials[MAX_THREADS / 32];  // of each warp
  const OutputSplit<T> split(problem);
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;

  const auto sum = warp_sum(split.thread_sum(problem));
  if (lane == 0) partials[warp] = sum;
  __syncthreads();
  if (warp > 0) return;
  const auto total = warp_sum(lane < warps ? partials[lane] : Accumulator<T>(0));
  if (lane == 0) split.store(problem, total);
}

struct Shuffle {
  static constexpr const char* NAME = "shuffle";
  template <typename T>
  static constexpr auto kernel() {
    return shuffle_kernel<T>;
  }
};

const Kernel shuffle = make_ladder_kernel<Shuffle>("warp shuffles, one barrier");

}  // namespace smem::reduce::inline SMEM_BUILD
