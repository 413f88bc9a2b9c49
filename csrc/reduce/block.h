// What the ladder's kernels share: a block sums one chunk of one output. Each thread first adds
// every blockDim.x-th element of the chunk; the ladder differs in how the threads' sums are then
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

/// Longer sums are cut into chunks of this many elements, a block each, and the chunks' sums are
/// summed in turn. It depends on nothing else: an output has the same bits whatever stands beside
/// it.
constexpr int64_t CHUNK = 8192;

/// A power of two: a function of the number of elements alone, so that the order of additions is.
inline unsigned threads_for(int64_t count) {
  unsigned threads = 32;
  for (; threads < MAX_THREADS && threads < count; threads *= 2) {
  }
  return threads;
}

template <typename T>
struct Block {
  using Acc = Accumulator<T>;

  int64_t output, chunk;

  __device__ __forceinline__ explicit Block(const Problem& problem) {
    output = problem.first_output + blockIdx.x / problem.chunks;
    chunk = blockIdx.x % problem.chunks;
  }

  /// The calling thread's share of the chunk, in ascending order.
  __device__ __forceinline__ Acc thread_sum(const Problem& problem) const {
    const T* in = static_cast<const T*>(problem.in) + offsets_at(problem.outputs, output).of[IN];
    const int64_t begin = chunk * CHUNK;
    const int64_t end = begin + CHUNK < problem.count ? begin + CHUNK : problem.count;
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
    put_result(problem, output, chunk, sum, site);
  }
};

/// A table row from a type that gives `kernel<T>()`.
template <typename Rung>
constexpr Kernel make_kernel(const char* summary) {
  return {Rung::NAME,
          summary,
          "any shape, any strides; sums only",
          false,
          [](const Problem& problem, const Device&) {
            return problem.count <= CHUNK ? 1 : ceil_div(problem.count, CHUNK);
          },
          [](const Problem& problem, const Device& device) {
            const int64_t outputs = problem.output_count;
            const int64_t outputs_a_launch = MAX_BLOCKS / problem.chunks;
            Problem part = problem;
            for (; part.first_output < outputs; part.first_output += outputs_a_launch) {
              const int64_t left = outputs - part.first_output;
              const Geometry geometry{
                  (left < outputs_a_launch ? left : outputs_a_launch) * problem.chunks,
                  {threads_for(problem.count)}};
              with_element_type(problem.in_dtype, [&](auto tag) {
                using T = typename decltype(tag)::type;
                launch(Rung::NAME, Rung::template kernel<T>(), geometry, device, part);
              });
            }
          },
          [](DType in_dtype) -> const void* {
            return with_element_type(in_dtype, [](auto tag) {
              using T = typename decltype(tag)::type;
              return reinterpret_cast<const void*>(Rung::template kernel<T>());
            });
          },
          [](DType in_dtype) -> const char* {
            return with_element_type(in_dtype, [](auto tag) {
              using T = typename decltype(tag)::type;
              return symbol_of<Rung::template kernel<T>()>();
            });
          }};
}

}  // namespace SMEM_BUILD
}  // namespace smem::reduce
