// rows: threads along a line keep it in their registers between finding its extremes and splitting
// it, so that each element is read once: 16 bytes a thread, 8 to each of hi and lo, whole sectors
// either way.
//
// 4 to 1024 threads share a line, by powers of two, with up to 8 runs of 4 elements each: 32768
// elements at most. Of a longer line only the last stretch is still there; the others are read
// again, the latest first, which the caches are most likely to have.
#include <algorithm>
#include <bit>
#include <utility>

#include "device/loop.h"
#include "device/tile.h"
#include "gemm/split/kernels.h"
#include "gemm/split/scale.h"

namespace smem::gemm::split {
inline namespace SMEM_BUILD {
namespace {

/// Threads of a block, more where a line takes more; warps at most.
constexpr int BLOCK_THREADS = 256, MAX_THREADS = 1024, MAX_WARPS = MAX_THREADS / 32;
/// Threads that share a line at least: 64 bytes of it.
constexpr int MIN_LINE_THREADS = 4;
/// 128 bytes under way a thread, in 32 of its registers: of 64, with which 1024 threads run at once
/// on a multiprocessor and have 128 KB under way, several times what its latency takes.
constexpr int64_t MAX_RUNS = 8;

struct Rows {
  Split split;
  int64_t pitch;
  Loop<1> lines;  ///< of all members
  int64_t all_lines;
  int line_threads;  ///< a power of two
  int64_t stretches;
};

template <bool WIDE, int RUNS>
__global__ void __launch_bounds__(MAX_THREADS) rows_kernel(const __grid_constant__ Rows rows) {
  __shared__ Tile<uint32_t, 2, MAX_WARPS> of_warps;
  const Split& split = rows.split;
  const int line_threads = rows.line_threads, lane = threadIdx.x % 32;
  const int thread = static_cast<int>(threadIdx.x) & (line_threads - 1);
  const int64_t line =
      int64_t{blockIdx.x} * (blockDim.x / line_threads) + threadIdx.x / line_threads;
  const bool exists = line < rows.all_lines;
  const int64_t length = exists ? split.length : 0;
  const float* const from = split.from + offsets_at(rows.lines, line).of[0];

  Run runs[RUNS] = {};
  const auto position_of = [&](int64_t stretch, int run) {
    return ((stretch * RUNS + run) * line_threads + thread) * RUN;
  };
  const auto load_stretch = [&](int64_t stretch) {
#pragma unroll
    for (int r = 0; r < RUNS; ++r) {
      const int64_t position = position_of(stretch, r);
      runs[r] = load_run<WIDE>(from + position * split.stride, split.stride, length - position);
    }
  };

  Extremes line_extremes;
  for (int64_t stretch = 0; stretch < rows.stretches; ++stretch) {
    load_stretch(stretch);
#pragma unroll
    for (int i = 0; i < RUNS * RUN; ++i) line_extremes.add(runs[i / RUN].lane[i % RUN]);
  }
  line_extremes = line_extremes.over_lanes(line_threads < 32 ? line_threads : 32);
  if (line_threads > 32) {
    const int warp = threadIdx.x / 32, warps = line_threads / 32;
    if (lane == 0) {
      of_warps(0, warp) = line_extremes.largest;
      of_warps(1, warp) = line_extremes.least_less_one;
    }
    __syncthreads();
    const int of_line = (warp & -warps) + (lane & (warps - 1));
    line_extremes = {of_warps(0, of_line), of_warps(1, of_line)};
    line_extremes = line_extremes.over_lanes(warps);
  }

  if (!exists) return;
  const Scale scale = scale_of(line_extremes);
  if (thread == 0) store_scale(split, line, scale);
  half* const hi = static_cast<half*>(split.hi) + line * rows.pitch;
  half* const lo = static_cast<half*>(split.lo) + line * rows.pitch;
  for (int64_t stretch = rows.stretches - 1; stretch >= 0; --stretch) {
    if (stretch < rows.stretches - 1) load_stretch(stretch);
#pragma unroll
    for (int r = 0; r < RUNS; ++r) {
      const int64_t position = position_of(stretch, r);
      if (position >= rows.pitch) continue;
      const Halves<RUN> halves(runs[r], scale);
      store_global_vector<RUN>(hi + position, halves.hi);
      store_global_vector<RUN>(lo + position, halves.lo);
    }
  }
}

template <int RUNS>
void launch_rows(const Rows& rows, const Device& device) {
  const Split& split = rows.split;
  const int threads = std::max(BLOCK_THREADS, rows.line_threads);
  const bool wide =
      runs_are_wide(split, split.stride, split.length, split.lines > 1 ? split.line_stride : 0);
  smem::launch("split_rows", wide ? rows_kernel<true, RUNS> : rows_kernel<false, RUNS>,
               {ceil_div(rows.all_lines, threads / rows.line_threads), dim3(threads)}, device,
               rows);
}

}  // namespace

void rows(const Split& split, const Device& device) {
  const int64_t runs = split.pitch() / RUN;
  const auto power_from = [](int64_t count) {
    return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(count)));
  };
  const int64_t line_threads =
      std::clamp<int64_t>(power_from(ceil_div(runs, MAX_RUNS)), MIN_LINE_THREADS, MAX_THREADS);
  const int64_t runs_a_thread = std::min(power_from(ceil_div(runs, line_threads)), MAX_RUNS);
  Rows rows{split,
            split.pitch(),
            {},
            split.all_lines(),
            static_cast<int>(line_threads),
            ceil_div(runs, line_threads * runs_a_thread)};
  for (const auto& [size, stride] :
       {std::pair{split.members, split.member_stride}, std::pair{split.lines, split.line_stride}}) {
    if (size == 1) continue;
    rows.lines.size[rows.lines.rank] = size;
    rows.lines.stride[0][rows.lines.rank++] = stride;
  }
  if (runs_a_thread == 1) return launch_rows<1>(rows, device);
  if (runs_a_thread == 2) return launch_rows<2>(rows, device);
  if (runs_a_thread == 4) return launch_rows<4>(rows, device);
  launch_rows<MAX_RUNS>(rows, device);
}

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::split
