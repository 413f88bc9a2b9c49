// tree: a block sums its elements by a tree in shared memory.
//
// The stride halves in every round: thread t adds the partial of thread t + stride, for t < stride.
// The active threads are neighbours, so there are no bank conflicts and whole warps become idle. A
// barrier separates the rounds, 8 of them for 256 threads. In the last five rounds only one warp
// adds, and all others wait.
#include "reduce/output_split.h"

namespace smem::reduce::inline SMEM_BUILD {

template <typename T>
__global__ void __launch_bounds__(MAX_THREADS)
    tree_kernel(const __grid_constant__ Problem problem) {
  __shared__ Accumulator<T> partials[MAX_THREADS];
  const OutputSplit<T> split(problem);
  const unsigned thread = threadIdx.x;

  partials[thread] = split.thread_sum(problem);
  for (unsigned stride = blockDim.x / 2; stride > 0; stride /= 2) {
    __syncthreads();
    if (thread < stride) partials[thread] += partials[thread + stride];
  }
  if (thread == 0) split.store(problem, partials[0]);
}

struct Tree {
  static constexpr const char* NAME = "tree";
  template <typename T>
  static constexpr auto kernel() {
    return tree_kernel<T>;
  }
};

const Kernel tree = make_ladder_kernel<Tree>("a tree in shared memory, a barrier each round");

}  // namespace smem::reduce::inline SMEM_BUILD
