// mn_major: splits an MN-major operand with a short K in one launch. Threads keep 16 rows in their
// registers between finding the rows' AbsMinMax and splitting them (split_fragment.h).
//
//   load a Fragment -> AbsMinMax: thread, warp (shuffles), block (shared memory) -> RowScales
//                   -> hi, lo to memory
//
// 32 to 256 threads (a power of two) share 16 rows: up to 512 elements per row. With 1024 threads,
// for which an SM has registers for few blocks at once, rows of 1024 took 8 us longer than two
// launches do. Longer rows are split by a cluster of blocks (split_mn_major_cluster.cu).
#include <algorithm>
#include <bit>

#include "device/pdl.h"
#include "device/prefetch_params.h"
#include "gemm/fp16x3/split_fragment.h"
#include "gemm/fp16x3/split_kernels.h"
#include "gemm/fp16x3/split_shared_minmax.h"

namespace smem::gemm::fp16x3::split::inline SMEM_BUILD {
namespace {

/// Threads per block, more if the rows take more; and the most warps.
constexpr int MN_MAJOR_MIN_THREADS = 128, MN_MAJOR_MAX_THREADS = 256,
              MN_MAJOR_MAX_WARPS = MN_MAJOR_MAX_THREADS / 32;
static_assert(MN_MAJOR_MAX_THREADS / THREADS_MN * THREAD_K == MN_MAJOR_MAX_K,
              "threads for all elements");

struct MnMajorSplitParams {
  SplitOperand operand;
  int64_t padded_k;
  uint32_t slice_blocks;  ///< blocks per k slice
  int tile_threads;       ///< threads that share TILE_MN rows: a power of two
};

template <bool VECTORIZED>
__global__ void __launch_bounds__(MN_MAJOR_MAX_THREADS, 3)
    split_mn_major_kernel(const __grid_constant__ MnMajorSplitParams params) {
  __shared__ SharedMinMax<MN_MAJOR_MAX_WARPS, TILE_MN> warp_minmax;
  prefetch_param(params);
  launch_dependent_grids();
  const SplitOperand& operand = params.operand;
  const int tile_threads = params.tile_threads, lane = threadIdx.x % 32;
  const int thread = static_cast<int>(threadIdx.x) & (tile_threads - 1);
  const int row_in_tile = thread % THREADS_MN * VEC_SIZE, thread_k = thread / THREADS_MN;
  const uint32_t slice_index = blockIdx.x / params.slice_blocks;
  const uint32_t block = blockIdx.x - slice_index * params.slice_blocks;
  const KSlice slice(operand, slice_index);
  const int64_t tile = int64_t{block} * (blockDim.x / tile_threads) + threadIdx.x / tile_threads;
  const int64_t row = tile * TILE_MN + row_in_tile;
  const Fragment<VECTORIZED> fragment(operand, slice, slice_index, row, thread_k * THREAD_K);
  AbsMinMax minmax[VEC_SIZE];
  fragment.warp_minmax(minmax);
  if (tile_threads > 32) {
    const int warp = threadIdx.x / 32, warps = tile_threads / 32;
    if (lane < THREADS_MN) warp_minmax.store(warp, row_in_tile, minmax);
    __syncthreads();
#pragma unroll
    for (AbsMinMax& of_row : minmax) of_row = {};
    for (int i = lane / THREADS_MN; i < warps; i += 32 / THREADS_MN) {
      warp_minmax.merge_into(minmax, (warp & -warps) + i, row_in_tile);
    }
#pragma unroll
    for (AbsMinMax& of_row : minmax) of_row = of_row.warp_reduce(32, THREADS_MN);
  }

  Vector<int, VEC_SIZE> scales;
#pragma unroll
  for (int r = 0; r < VEC_SIZE; ++r) scales.lane[r] = row_scale_of(minmax[r]).pack();
  fragment.store_hi_lo(scales, params.padded_k);
  wait_on_dependent_grids();
}

}  // namespace

void mn_major(const SplitOperand& operand, const Device& device, bool launch_with_pdl) {
  const auto needed = static_cast<uint64_t>(operand.padded_k() / THREAD_K * THREADS_MN);
  const int tile_threads = std::max(static_cast<int>(std::bit_ceil(needed)), 32);
  const int threads = std::max(MN_MAJOR_MIN_THREADS, tile_threads);
  const int64_t blocks = ceil_div(operand.mn, int64_t{threads / tile_threads} * TILE_MN);
  const bool vectorized = can_vectorize_along_mn(operand);
  smem::launch("split_mn_major",
               vectorized ? split_mn_major_kernel<true> : split_mn_major_kernel<false>,
               {blocks * operand.total_k_slices(), dim3(threads), 0, launch_with_pdl}, device,
               MnMajorSplitParams{
                   .operand = operand,
                   .padded_k = operand.padded_k(),
                   .slice_blocks = static_cast<uint32_t>(blocks),
                   .tile_threads = tile_threads,
               });
}

}  // namespace smem::gemm::fp16x3::split::inline SMEM_BUILD
