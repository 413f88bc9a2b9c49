// Split-K: where the partials are in the workspace, and the reduction, which adds them in the order
// in which one block would have added them and applies the epilogue.
#pragma once

#include <climits>

#include "device/pdl.h"
#include "gemm/block_tile.h"
#include "gemm/simt/tile_config.h"

namespace smem::gemm::simt::inline SMEM_BUILD {

constexpr int REDUCE_LANES = 32, REDUCE_WARPS = 8, REDUCE_THREADS = REDUCE_LANES * REDUCE_WARPS;
/// Superblocks that a warp, and a block, of simt_reduce_long_kernel adds per round.
constexpr int SUPERBLOCKS_PER_WARP = 16,
              SUPERBLOCKS_PER_ROUND = REDUCE_WARPS * SUPERBLOCKS_PER_WARP;

/// The partials of a tile's matrix of the batch in unit `unit` of K (PartialUnit): unit after unit,
/// matrix after matrix. `index`: of the tile, through the batch.
template <typename T>
__device__ __forceinline__ Matrix<T> partials_at(const SimtParams& params, unsigned index,
                                                 int64_t unit) {
  const int64_t M = params.problem.M, N = params.problem.N;
  const int64_t matrix = unit * params.batch_count + index / (params.tiles_m * params.tiles_n);
  return {static_cast<T*>(params.problem.workspace) + matrix * M * N, M, N, N, 1};
}

/// The partials of one element of out: of intervals, or of superblocks.
template <typename T>
struct Partials {
  const T* first;  ///< the element's first partial
  int64_t stride, count;
  bool by_interval;

  __device__ __forceinline__ int64_t superblocks() const {
    constexpr int64_t PER_SUPERBLOCK = INTERVALS_PER_SUPERBLOCK;
    return by_interval ? (count + PER_SUPERBLOCK - 1) / PER_SUPERBLOCK : count;
  }

  /// The sum of those from `begin` to `end`, or to the last one, in the order of
  /// accumulation_order.h. `begin` is the first of a superblock. LOADS of them are in flight at
  /// once.
  template <int LOADS>
  __device__ __forceinline__ Accumulator<T> sum(int64_t begin, int64_t end) const {
    static_assert(INTERVALS_PER_SUPERBLOCK % LOADS == 0, "a superblock ends with a batch of loads");
    end = lesser(end, count);
    Accumulator<T> superblock = 0, total = 0;
#pragma unroll 1
    for (int64_t at = begin; at < end; at += LOADS) {
      T values[LOADS];
#pragma unroll
      for (int i = 0; i < LOADS; ++i) values[i] = at + i < end ? first[(at + i) * stride] : T(0);
#pragma unroll
      for (int i = 0; i < LOADS; ++i) {
        if (at + i >= end) break;
        (by_interval ? superblock : total) += to_accumulator(values[i]);
      }
      const bool ends_superblock = (at + LOADS) % INTERVALS_PER_SUPERBLOCK == 0;
      if (by_interval && (ends_superblock || at + LOADS >= end)) {
        total += superblock;
        superblock = 0;
      }
    }
    return total;
  }
};

template <typename T>
__device__ __forceinline__ Partials<T> partials_of(const SimtParams& params, int64_t element) {
  const Problem& problem = params.problem;
  const int64_t length = partial_length(params.split_k.unit, problem.K);
  return {static_cast<const T*>(problem.workspace) + element,
          int64_t{params.batch_count} * problem.M * problem.N, (problem.K + length - 1) / length,
          params.split_k.unit == PartialUnit::interval};
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
  const Partials<T> partials = partials_of<T>(params, element);
  wait_on_dependent_grids();
  if (element >= params.batch_count * params.problem.M * params.problem.N) return;
  store_element<T>(params, element, partials.template sum<8>(0, partials.count));
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
  const int64_t superblocks = element < elements ? partials.superblocks() : 0;
  wait_on_dependent_grids();
  Accumulator<T> total = 0;
  for (int64_t first = 0; first < partials.superblocks(); first += SUPERBLOCKS_PER_ROUND) {
    if (partials.by_interval) {
#pragma unroll 1
      for (int s = warp; s < SUPERBLOCKS_PER_ROUND && first + s < superblocks; s += REDUCE_WARPS) {
        const int64_t begin = (first + s) * INTERVALS_PER_SUPERBLOCK;
        superblock_accum(s, lane) =
            from_accumulator<T>(partials.template sum<16>(begin, begin + INTERVALS_PER_SUPERBLOCK));
      }
    } else {
      T values[SUPERBLOCKS_PER_WARP];
#pragma unroll
      for (int i = 0; i < SUPERBLOCKS_PER_WARP; ++i) {
        const int64_t s = first + i * REDUCE_WARPS + warp;
        values[i] = s < superblocks ? partials.first[s * partials.stride] : T(0);
      }
#pragma unroll
      for (int i = 0; i < SUPERBLOCKS_PER_WARP; ++i) {
        superblock_accum(i * REDUCE_WARPS + warp, lane) = values[i];
      }
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
