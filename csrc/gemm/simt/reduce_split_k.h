// Adds the sums of K's units in the workspace, in the order in which one block would have.
#pragma once

#include <climits>

#include "gemm/block.h"
#include "gemm/simt/tile_config.h"

namespace smem::gemm::simt {
inline namespace SMEM_BUILD {

/// A block's elements lie in a warp's lanes; its warps take superchunks in turn.
constexpr int REDUCE_LANES = 32, REDUCE_WARPS = 8, REDUCE_EACH = 8;
constexpr int REDUCE_ROUND = REDUCE_WARPS * REDUCE_EACH;

template <typename T>
struct Partials {
  const T* at;  ///< the first unit's sum of an element
  int64_t step, units;
  int per_superchunk;

  /// Superchunk `s`'s sum.
  __device__ __forceinline__ Accumulator<T> sum(int64_t s) const {
    const int64_t first = s * per_superchunk;
    const auto count = static_cast<int>(lesser(units - first, int64_t{per_superchunk}));
    Accumulator<T> sum = 0;
#pragma unroll 8
    for (int i = 0; i < count; ++i) sum += to_accumulator(load(at + (first + i) * step));
    return sum;
  }
};

template <typename T>
__device__ __forceinline__ Partials<T> partials_of(const Arguments& arguments, int64_t element) {
  const Problem& problem = arguments.problem;
  const bool by_chunk = arguments.cut.by == Unit::chunk;
  const int64_t unit = unit_length(arguments.cut.by, problem.K);
  return {static_cast<const T*>(problem.workspace) + element,
          int64_t{arguments.members} * problem.M * problem.N, (problem.K + unit - 1) / unit,
          by_chunk ? static_cast<int>(CHUNKS_A_SUPERCHUNK) : 1};
}

template <typename T>
__device__ __forceinline__ void store_sum(const Arguments& arguments, int64_t element,
                                          Accumulator<T> sum) {
  const Problem& problem = arguments.problem;
  const int64_t matrix = problem.M * problem.N, at = element % matrix;
  // One tile a member.
  const Block<T> block(problem, INT_MAX, INT_MAX, static_cast<unsigned>(element / matrix));
  block.epilogue.store(at / problem.N, at % problem.N, sum);
}

/// Few units: a thread an element.
template <typename T>
__global__ void __launch_bounds__(REDUCE_LANES* REDUCE_WARPS)
    simt_reduce_kernel(const __grid_constant__ Arguments arguments) {
  const int64_t element = int64_t{blockIdx.x} * REDUCE_LANES * REDUCE_WARPS + threadIdx.x;
  if (element >= arguments.members * arguments.problem.M * arguments.problem.N) return;
  const Partials<T> partials = partials_of<T>(arguments, element);
  Accumulator<T> total = 0;
#pragma unroll 4
  for (int64_t s = 0; s * partials.per_superchunk < partials.units; ++s) total += partials.sum(s);
  store_sum<T>(arguments, element, total);
}

/// Many: superchunks' sums at the same time, then added one after the other.
template <typename T>
__global__ void __launch_bounds__(REDUCE_LANES* REDUCE_WARPS)
    simt_reduce_long_kernel(const __grid_constant__ Arguments arguments) {
  __shared__ Tile<T, REDUCE_ROUND, REDUCE_LANES> sums;
  const int lane = threadIdx.x % REDUCE_LANES, warp = threadIdx.x / REDUCE_LANES;
  const int64_t element = int64_t{blockIdx.x} * REDUCE_LANES + lane;
  const int64_t elements = arguments.members * arguments.problem.M * arguments.problem.N;
  const Partials<T> partials = partials_of<T>(arguments, element);
  const int64_t superchunks =
      (partials.units + partials.per_superchunk - 1) / partials.per_superchunk;
  Accumulator<T> total = 0;
  for (int64_t first = 0; first < superchunks; first += REDUCE_ROUND) {
#pragma unroll
    for (int i = 0; i < REDUCE_EACH; ++i) {
      const int at = i * REDUCE_WARPS + warp;
      const bool inside = element < elements && first + at < superchunks;
      const Accumulator<T> sum = inside ? partials.sum(first + at) : Accumulator<T>(0);
      sums(at, lane) = from_accumulator<T>(sum);
    }
    __syncthreads();
    if (warp == 0) {
      const auto count = static_cast<int>(lesser(superchunks - first, int64_t{REDUCE_ROUND}));
#pragma unroll 8
      for (int i = 0; i < count; ++i) total += to_accumulator(T(sums(i, lane)));
    }
    __syncthreads();
  }
  if (warp == 0 && element < elements) store_sum<T>(arguments, element, total);
}

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::simt
