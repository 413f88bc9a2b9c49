// columns: the whole split where lines lie side by side, in one launch. Threads keep 16 lines in
// their registers between finding the lines' extremes and splitting them (split_share.h).
//
// 32 to 256 threads share 16 lines, by powers of two: 512 elements a line. With 1024 threads, of
// which the registers hold few blocks at once, lines of 1024 took 8 us longer than two launches do.
// Longer lines have a cluster of blocks (split_mn_major_cluster.cu).
#include <algorithm>
#include <bit>

#include "device/pdl.h"
#include "gemm/fp16x3/split_kernels.h"
#include "gemm/fp16x3/split_share.h"
#include "gemm/fp16x3/split_shared_minmax.h"

namespace smem::gemm::fp16x3::split {
inline namespace SMEM_BUILD {
namespace {

/// Threads of a block, more where lines take more; warps at most.
constexpr int LEAST_THREADS = 128, MOST_THREADS = 256, MOST_WARPS = MOST_THREADS / 32;
static_assert(MOST_THREADS / ACROSS * OWN == LONGEST_COLUMN, "threads for all elements");

struct Columns {
  Split split;
  int64_t padded_length;
  uint32_t part_blocks;  ///< those of a part
  int line_threads;      ///< that share lines: a power of two
};

template <bool WIDE>
__global__ void __launch_bounds__(MOST_THREADS, 3)
    columns_kernel(const __grid_constant__ Columns columns) {
  __shared__ SharedExtremes<MOST_WARPS, LINES> of_warps;
  launch_dependent_grids();
  const Split& split = columns.split;
  const int line_threads = columns.line_threads, lane = threadIdx.x % 32;
  const int thread = static_cast<int>(threadIdx.x) & (line_threads - 1);
  const int in_tile = thread % ACROSS * RUN, along = thread / ACROSS;
  const uint32_t index = blockIdx.x / columns.part_blocks;
  const uint32_t block = blockIdx.x - index * columns.part_blocks;
  const Part part(split, index);
  const int64_t line =
      (int64_t{block} * (blockDim.x / line_threads) + threadIdx.x / line_threads) * LINES + in_tile;
  const Share<WIDE> share(split, part, index, line, along * OWN);
  Extremes of_lines[RUN];
  share.find_extremes(of_lines);
  if (line_threads > 32) {
    const int warp = threadIdx.x / 32, warps = line_threads / 32;
    if (lane < ACROSS) of_warps.store(warp, in_tile, of_lines);
    __syncthreads();
#pragma unroll
    for (Extremes& of_line : of_lines) of_line = {};
    for (int i = lane / ACROSS; i < warps; i += 32 / ACROSS) {
      of_warps.add_to(of_lines, (warp & -warps) + i, in_tile);
    }
#pragma unroll
    for (Extremes& of_line : of_lines) of_line = of_line.over_lanes(32, ACROSS);
  }

  Vector<int, RUN> codes;
#pragma unroll
  for (int l = 0; l < RUN; ++l) codes.lane[l] = scale_of(of_lines[l]).code();
  share.store_halves(codes, columns.padded_length);
  wait_on_dependent_grids();
}

}  // namespace

void columns(const Split& split, const Device& device, bool launch_with_pdl) {
  const auto needed = static_cast<uint64_t>(split.padded_length() / OWN * ACROSS);
  const int line_threads = std::max(static_cast<int>(std::bit_ceil(needed)), 32);
  const int threads = std::max(LEAST_THREADS, line_threads);
  const int64_t blocks = ceil_div(split.lines, int64_t{threads / line_threads} * LINES);
  const bool wide = runs_are_wide(split, split.line_stride, split.lines, split.stride);
  smem::launch("split_columns", wide ? columns_kernel<true> : columns_kernel<false>,
               {blocks * split.all_parts(), dim3(threads), 0, launch_with_pdl}, device,
               Columns{split, split.padded_length(), static_cast<uint32_t>(blocks), line_threads});
}

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::fp16x3::split
