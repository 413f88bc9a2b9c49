// The parts that the ladder's kernels share. One block sums one split of one output: each thread
// first adds every blockDim.x-th element of the split, and the kernels differ in how they then add
// the threads' sums.
//
// The order of additions depends on the number of elements of an output alone, so
// ELEMENTS_PER_SPLIT and threads_for must not depend on anything else.
#pragma once

#include <algorithm>

#include "device/numeric_types.h"
#include "device/tile.h"
#include "reduce/element_type.h"
#include "reduce/ladder.h"
#include "reduce/store.h"

namespace smem::reduce::inline SMEM_BUILD {

constexpr int MAX_THREADS = 256;

/// Sums of more elements are divided into splits of this many elements, one block per split, and a
/// second launch sums the splits. It is a constant, so an output has the same bits whatever else is
/// reduced with it.
constexpr int64_t ELEMENTS_PER_SPLIT = 8192;

/// A power of two. It depends on the number of elements alone, because the order of additions does.
inline unsigned threads_for(int64_t count) {
  unsigned threads = 32;
  for (; threads < MAX_THREADS && threads < count; threads *= 2) {
  }
  return threads;
}

template <typename T>
struct OutputSplit {
  using Acc = Accumulator<T>;

  int64_t output, split;

  __device__ __forceinline__ explicit OutputSplit(const Problem& problem) {
    output = problem.first_output + blockIdx.x / problem.splits;
    split = blockIdx.x % problem.splits;
  }

  /// The sum of the calling thread's elements of the split, in ascending order.
  __device__ __forceinline__ Acc thread_sum(const Problem& problem) const {
    const T* in = static_cast<const T*>(problem.in) + offsets_at(problem.outputs, output).of[IN];
    const int64_t begin = split * ELEMENTS_PER_SPLIT;
    const int64_t end =
        begin + ELEMENTS_PER_SPLIT < problem.count ? begin + ELEMENTS_PER_SPLIT : problem.count;
    Acc sum = 0;
    if (problem.reduced.rank <= 1) {
      // Unrolling by 4 issues four loads before the first is added.
      const int64_t stride = problem.reduced.stride[0][0];
#pragma unroll 4
      for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
        sum += to_accumulator(in[i * stride]);
      }
    } else {
      for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
        sum += to_accumulator(in[offsets_at(problem.reduced, i).of[0]]);
      }
    }
    return sum;
  }

  /// Stores the block's sum. Called by one thread.
  __device__ __forceinline__ void store(const Problem& problem, Acc sum) const {
    store_result(problem, output, split, sum);
  }
};

/// What the ladder's rows of the kernel table share. `LadderKernel` has NAME and `kernel<T>()`.
template <typename LadderKernel>
struct LadderRung : LadderKernel {
  static int64_t splits(const Problem& problem, const Device& /*device*/) {
    return problem.count <= ELEMENTS_PER_SPLIT ? 1 : ceil_div(problem.count, ELEMENTS_PER_SPLIT);
  }
  static void launch(const Problem& problem, const Device& device) {
    const int64_t outputs = problem.output_count;
    const int64_t outputs_per_launch = MAX_BLOCKS / problem.splits;
    Problem launch_problem = problem;
    for (; launch_problem.first_output < outputs;
         launch_problem.first_output += outputs_per_launch) {
      const int64_t left = outputs - launch_problem.first_output;
      const Geometry geometry{.blocks = std::min(left, outputs_per_launch) * problem.splits,
                              .threads = {threads_for(problem.count)}};
      with_element_type(problem.in_dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        smem::launch(LadderKernel::NAME, LadderKernel::template kernel<T>(), geometry, device,
                     launch_problem);
      });
    }
  }
};

/// A row of the kernel table for a type that provides NAME and `kernel<T>()`.
template <typename LadderKernel>
constexpr Kernel make_ladder_kernel(const char* summary) {
  return make_kernel<LadderRung<LadderKernel>>(summary, "any shape, any strides; sums only",
                                               /*any_operator=*/false);
}

}  // namespace smem::reduce::inline SMEM_BUILD
