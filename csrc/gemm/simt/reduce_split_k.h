// The reduction after split-K: adds the partials in the workspace in the order in which one block
// would have added them, and applies the epilogue.
#pragma once

#include <climits>

#include "gemm/block_tile.h"
#include "gemm/simt/tile_config.h"

namespace smem::gemm::simt::inline SMEM_BUILD {

constexpr int REDUCE_LANES = 32, REDUCE_WARPS = 8, REDUCE_THREADS = REDUCE_LANES * REDUCE_WARPS;
/// Superblocks that a warp, and a block, of simt_reduce_long_kernel sums per round.
constexpr int SUPERBLOCKS_PER_WARP = 8, SUPERBLOCKS_PER_ROUND = REDUCE_WARPS * SUPERBLOCKS_PER_WARP;

/// The partials of one element of out.
template <typename T>
struct Partials {
  const T* first;  ///< the element's first partial
  int64_t stride, count;
  int per_superblock;

  /// The sum of superblock `s`.
  __device__ __forceinline__ Accumulator<T> superblock(int64_t s) const {
    const int64_t begin = s * per_superblock;
    const auto number = static_cast<int>(lesser(count - begin, int64_t{per_superblock}));
    Accumulator<T> accum = 0;
#pragma unroll 8
    for (int i = 0; i < number; ++i) accum += to_accumulator(first[(begin + i) * stride]);
    return accum;
  }
};

template <typename T>
__device__ __forceinline__ Partials<T> partials_of(const SimtParams& params, int64_t element) {
  const Problem& problem = params.problem;
  const bool by_interval = params.split_k.unit == PartialUnit::interval;
  const int64_t length = partial_length(params.split_k.unit, problem.K);
  return {static_cast<const T*>(problem.workspace) + element,
          int64_t{params.batch_count} * problem.M * problem.N, (problem.K + length - 1) / length,
          by_interval ? static_cast<int>(INTERVALS_PER_SUPERBLOCK) : 1};
}

template <typename T>
__device__ __forceinline__ void store_element(const SimtParams& params, int64_t element,
                                              Accumulator<T> accum) {
  const Problem& problem = params.problem;
  const int64_t matrix = problem.M * problem.N, at = element % matrix;
  // With tiles of this size, a matrix is one tile.
  const BlockTile<T> block(problem, INT_MAX, INT_MAX, static_cast<unsigned>(element / matrix));
  block.epilogue.store(at / problem.N, at % problem.N, accum);
}

/// For few partials: one thread per element.
template <typename T>
__global__ void __launch_bounds__(REDUCE_THREADS)
    simt_reduce_kernel(const __grid_constant__ SimtParams params) {
  const int64_t element = int64_t{blockIdx.x} * REDUCE_LANES * REDUCE_WARPS + threadIdx.x;
  if (element >= params.batch_count * params.problem.M * params.problem.N) return;
  const Partials<T> partials = partials_of<T>(params, element);
  Accumulator<T> total = 0;
#pragma unroll 4
  for (int64_t s = 0; s * partials.per_superblock < partials.count; ++s) {
    total += partials.superblock(s);
  }
  store_element<T>(params, element, total);
}

/// For many partials: 32 elements per block. In each round the block's warps sum different
/// superblocks in parallel, and then one warp adds the results in order.
template <typename T>
__global__ void __launch_bounds__(REDUCE_THREADS)
    simt_reduce_long_kernel(const __grid_constant__ SimtParams params) {
  __shared__ Tile<T, SUPERBLOCKS_PER_ROUND, REDUCE_LANES> superblock_accum;
  const int lane = threadIdx.x % REDUCE_LANES, warp = threadIdx.x / REDUCE_LANES;
  const int64_t element = int64_t{blockIdx.x} * REDUCE_LANES + lane;
  const int64_t elements = params.batch_count * params.problem.M * params.problem.N;
  const Partials<T> partials = partials_of<T>(params, element);
  const int64_t superblocks =
      (partials.count + partials.per_superblock - 1) / partials.per_superblock;
  Accumulator<T> total = 0;
  for (int64_t first = 0; first < superblocks; first += SUPERBLOCKS_PER_ROUND) {
#pragma unroll
    for (int i = 0; i < SUPERBLOCKS_PER_WARP; ++i) {
      const int s = i * REDUCE_WARPS + warp;
      const bool is_valid = element < elements && first + s < superblocks;
      const Accumulator<T> accum = is_valid ? partials.superblock(first + s) : Accumulator<T>(0);
      superblock_accum(s, lane) = from_accumulator<T>(accum);
    }
    __syncthreads();
    if (warp == 0) {
      const auto count =
          static_cast<int>(lesser(superblocks - first, int64_t{SUPERBLOCKS_PER_ROUND}));
#pragma unroll 8
      for (int i = 0; i < count; ++i) total += to_accumulator(T(superblock_accum(i, lane)));
    }
    __syncthreads();
  }
  if (warp == 0 && element < elements) store_element<T>(params, element, total);
}

}  // namespace smem::gemm::simt::inline SMEM_BUILD
