// What the ladder's kernels share: a block sums one split of one output. Each thread first adds
// every blockDim.x-th element of the split; the ladder differs in how the threads' sums are then
// added.
#pragma once

#include "device/numeric_types.h"
#include "device/symbol.h"
#include "device/tile.h"
#include "reduce/element_type.h"
#include "reduce/ladder.h"
#include "reduce/store.h"

namespace smem::reduce {
inline namespace SMEM_BUILD {

constexpr int MAX_THREADS = 256;

/// Longer sums are cut into splits of this many elements, a block each, and the splits' sums are
/// summed in transform. It depends on nothing else: an output has the same bits whatever stands
/// beside it.
constexpr int64_t ELEMENTS_PER_SPLIT = 8192;

/// A power of two: a function of the number of elements alone, so that the order of additions is.
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

  /// The calling thread's share of the split, in ascending order.
  __device__ __forceinline__ Acc thread_sum(const Problem& problem) const {
    const T* in = static_cast<const T*>(problem.in) + offsets_at(problem.outputs, output).of[IN];
    const int64_t begin = split * ELEMENTS_PER_SPLIT;
    const int64_t end =
        begin + ELEMENTS_PER_SPLIT < problem.count ? begin + ELEMENTS_PER_SPLIT : problem.count;
    Acc sum = 0;
    if (problem.reduced.rank <= 1) {
      // Unrolled, four loads are under way before the first is added.
      const int64_t stride = problem.reduced.stride[0][0];
#pragma unroll 4
      for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
        sum += to_accumulator(load(in + i * stride));
      }
    } else {
      for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
        sum += to_accumulator(load(in + offsets_at(problem.reduced, i).of[0]));
      }
    }
    return sum;
  }

  /// Writes the block's sum. Called by one thread.
  __device__ __forceinline__ void store(const Problem& problem, Acc sum,
                                        Site site = Site::here()) const {
    store_result(problem, output, split, sum, site);
  }
};

/// A table row from a type that gives `kernel<T>()`.
template <typename LadderKernel>
constexpr Kernel make_kernel(const char* summary) {
  return {LadderKernel::NAME,
          summary,
          "any shape, any strides; sums only",
          false,
          [](const Problem& problem, const Device&) {
            return problem.count <= ELEMENTS_PER_SPLIT
                       ? 1
                       : ceil_div(problem.count, ELEMENTS_PER_SPLIT);
          },
          [](const Problem& problem, const Device& device) {
            const int64_t outputs = problem.output_count;
            const int64_t outputs_per_launch = MAX_BLOCKS / problem.splits;
            Problem launch_problem = problem;
            for (; launch_problem.first_output < outputs;
                 launch_problem.first_output += outputs_per_launch) {
              const int64_t left = outputs - launch_problem.first_output;
              const Geometry geometry{
                  (left < outputs_per_launch ? left : outputs_per_launch) * problem.splits,
                  {threads_for(problem.count)}};
              with_element_type(problem.in_dtype, [&](auto tag) {
                using T = typename decltype(tag)::type;
                launch(LadderKernel::NAME, LadderKernel::template kernel<T>(), geometry, device,
                       launch_problem);
              });
            }
          },
          [](DType in_dtype) -> const void* {
            return with_element_type(in_dtype, [](auto tag) {
              using T = typename decltype(tag)::type;
              return reinterpret_cast<const void*>(LadderKernel::template kernel<T>());
            });
          },
          [](DType in_dtype) -> const char* {
            return with_element_type(in_dtype, [](auto tag) {
              using T = typename decltype(tag)::type;
              return symbol_of<LadderKernel::template kernel<T>()>();
            });
          }};
}

}  // namespace SMEM_BUILD
}  // namespace smem::reduce
