// k_major: splits an operand whose neighbours along K are neighbours in memory, or any operand that
// is not MN-major. The threads along a row keep it in registers between finding its AbsMinMax and
// splitting it, so each element is read once: 16 bytes per thread, and 8 written to each of hi and
// lo, which are whole sectors both ways.
//
//   load a row into registers -> AbsMinMax: thread, warp (shuffles), block (shared memory)
//                             -> RowScale -> hi, lo to memory
//
// 8 to 1024 threads (a power of two) share a row, with up to 8 vectors of 4 elements each: 32768
// elements at most. Of a longer row only the last section is still in registers. The others are
// read again, the latest first, which is the one most likely still in the caches.
//
// The numbers of threads and of vectors may be changed without a change of the results.
#include <algorithm>
#include <bit>
#include <utility>

#include "device/pdl.h"
#include "device/prefetch_params.h"
#include "device/tile.h"
#include "gemm/fp16x3/scale.h"
#include "gemm/fp16x3/split_kernels.h"

namespace smem::gemm::fp16x3::split::inline SMEM_BUILD {
namespace {

/// Threads per block, more if a row takes more; and the most warps.
constexpr int BLOCK_THREADS = 256, MAX_THREADS = 1024, MAX_WARPS = MAX_THREADS / 32;
/// The fewest threads that share a row: their vectors are a whole k block.
constexpr int MIN_ROW_THREADS = K_BLOCK / VEC_SIZE;
/// The most vectors per thread: 128 bytes, in 32 of the 64 registers with which 1024 threads fit on
/// an SM twice. They have 128 KiB in flight, where 26 to 40 cover the latency.
constexpr int MAX_VECS = 8;

struct KMajorSplitParams {
  SplitOperand operand;
  int64_t padded_k;
  uint32_t slice_blocks;  ///< blocks per k slice
  int log2_row_threads;
  int64_t sections;  ///< per row: loads of all of a row's threads
};

/// VECS per thread; fewer than MAX_VECS only if MIN_ROW_THREADS share a row. MULTI_SECTION: a row
/// has several sections.
template <bool VECTORIZED, int VECS, bool MULTI_SECTION>
__global__ void __launch_bounds__(VECS < MAX_VECS ? BLOCK_THREADS : MAX_THREADS)
    split_k_major_kernel(const __grid_constant__ KMajorSplitParams params) {
  __shared__ Tile<uint32_t, 3, MAX_WARPS> warp_minmax;
  prefetch_param(params);
  launch_dependent_grids();
  const SplitOperand& operand = params.operand;
  const int row_threads = 1 << params.log2_row_threads, lane = threadIdx.x % 32;
  const int thread = static_cast<int>(threadIdx.x) & (row_threads - 1);
  const uint32_t slice_index = blockIdx.x / params.slice_blocks;
  const uint32_t block = blockIdx.x - slice_index * params.slice_blocks;
  const KSlice slice(operand, slice_index);
  const int64_t row = int64_t{block} * (blockDim.x >> params.log2_row_threads) +
                      (threadIdx.x >> params.log2_row_threads);
  using Index = std::conditional_t<MULTI_SECTION, int64_t, int>;
  const Index sections = MULTI_SECTION ? params.sections : 1;
  const Index length = row < operand.mn ? static_cast<Index>(slice.length) : 0;
  const int64_t stride = VECTORIZED ? 1 : operand.k_stride;
  const float* const src = slice.src + row * operand.mn_stride;

  // The thread's first element, and the distance between its vectors.
  const int first = thread * VEC_SIZE, vec_step = row_threads * VEC_SIZE;
  FloatVec vecs[VECS] = {};
  const auto load_section = [&](Index section) {
    Index k = section * (VECS * vec_step) + first;
    const float* next = src + k * stride;
#pragma unroll
    for (int v = 0; v < VECS; ++v) {
      vecs[v] = load_vec<VECTORIZED>(next, stride, length - k);
      k += vec_step;
      next += vec_step * stride;
    }
  };

  AbsMinMax minmax;
  for (Index section = 0; section < sections; ++section) {
    load_section(section);
#pragma unroll
    for (int i = 0; i < VECS * VEC_SIZE; ++i) {
      minmax.include(vecs[i / VEC_SIZE].lane[i % VEC_SIZE]);
    }
  }
  minmax = minmax.warp_reduce(row_threads < 32 ? row_threads : 32);
  if (row_threads > 32) {
    const int warp = threadIdx.x / 32, warps = row_threads / 32;
    if (lane == 0) {
      warp_minmax(0, warp) = minmax.amax;
      warp_minmax(1, warp) = minmax.amin_minus_one;
      warp_minmax(2, warp) = minmax.second_amin_minus_one;
    }
    __syncthreads();
    const int warp_of_row = (warp & -warps) + (lane & (warps - 1));
    minmax = {warp_minmax(0, warp_of_row), warp_minmax(1, warp_of_row),
              warp_minmax(2, warp_of_row)};
    minmax = minmax.warp_reduce(warps);
  }

  if (row >= operand.mn) return;
  const RowScale scale = row_scale_of(minmax);
  const int64_t result_row = slice_index * operand.mn + row;
  if (thread == 0) store_row_scale(operand, result_row, scale);
  half* const dst = static_cast<half*>(operand.hi_lo) + result_row * 2 * params.padded_k;
  for (Index section = sections - 1; section >= 0; --section) {
    if (section < sections - 1) load_section(section);
    Index k = section * (VECS * vec_step) + first;
    half* next = dst + hi_offset(k);
#pragma unroll
    for (int v = 0; v < VECS; ++v) {
      if (k >= params.padded_k) break;
      const HiLo<VEC_SIZE> result(vecs[v], scale);
      store_global_vector<VEC_SIZE>(next, result.hi);
      store_global_vector<VEC_SIZE>(next + K_BLOCK, result.lo);
      k += vec_step;
      next += 2 * vec_step;
    }
  }
  // Outliers are rare, so the row is read again rather than kept: all registers are taken.
  if (scale.status == ONE_OUTLIER) {
    for (Index k = thread; k < length; k += row_threads) {
      store_if_outlier(operand, result_row, k, src[k * stride], scale);
    }
  }
  wait_on_dependent_grids();
}

/// Merges the matrices of a batch into one if their rows follow on each other. No block serves two
/// matrices, so with a row or a few per matrix most threads of a block would be idle.
SplitOperand merge_batch(SplitOperand operand) {
  if (operand.k_slices > 1) return operand;
  if (operand.mn == 1) operand.mn_stride = operand.batch_stride;
  if (operand.batch_stride == operand.mn * operand.mn_stride) {
    operand.mn *= std::exchange(operand.batch_count, 1);
  }
  return operand;
}

template <int VECS, bool MULTI_SECTION>
void launch_k_major(const SplitOperand& operand, int row_threads, const Device& device,
                    bool launch_with_pdl) {
  const int threads = std::max(BLOCK_THREADS, row_threads);
  const int64_t blocks = ceil_div(operand.mn, threads / row_threads);
  const int64_t sections = ceil_div(operand.padded_k(), int64_t{VECS * VEC_SIZE} * row_threads);
  const bool vectorized = can_vectorize_along_k(operand);
  smem::launch("split_k_major",
               vectorized ? split_k_major_kernel<true, VECS, MULTI_SECTION>
                          : split_k_major_kernel<false, VECS, MULTI_SECTION>,
               {blocks * operand.total_k_slices(), dim3(threads), 0, launch_with_pdl}, device,
               KMajorSplitParams{
                   .operand = operand,
                   .padded_k = operand.padded_k(),
                   .slice_blocks = static_cast<uint32_t>(blocks),
                   .log2_row_threads = std::countr_zero(static_cast<unsigned>(row_threads)),
                   .sections = sections,
               });
}

}  // namespace

void k_major(const SplitOperand& operand, const Device& device, bool launch_with_pdl) {
  const int64_t vecs = operand.padded_k() / VEC_SIZE;
  const int64_t needed = std::min<int64_t>(ceil_div(vecs, MAX_VECS), MAX_THREADS);
  const int threads =
      std::max(static_cast<int>(std::bit_ceil(static_cast<uint64_t>(needed))), MIN_ROW_THREADS);
  const int64_t vecs_per_thread = ceil_div(vecs, threads);
  const SplitOperand merged = merge_batch(operand);
  const auto launch = [&](auto kernel) { kernel(merged, threads, device, launch_with_pdl); };
  if (vecs_per_thread <= 1) return launch(launch_k_major<1, false>);
  if (vecs_per_thread <= 2) return launch(launch_k_major<2, false>);
  if (vecs_per_thread <= 4) return launch(launch_k_major<4, false>);
  if (vecs_per_thread <= MAX_VECS) return launch(launch_k_major<MAX_VECS, false>);
  launch(launch_k_major<MAX_VECS, true>);
}

}  // namespace smem::gemm::fp16x3::split::inline SMEM_BUILD
