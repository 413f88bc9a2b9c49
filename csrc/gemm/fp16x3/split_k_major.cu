// rows: threads along a line keep it in their registers between finding its extremes and splitting
// it, so that each element is read once: 16 bytes a thread, 8 to each of hi and lo, whole sectors
// either way.
//
// 8 to 1024 threads share a line, by powers of two, with up to 8 runs of 4 elements each: 32768
// elements at most. Of a longer line only the last stretch is still there; the others are read
// again, the latest first, which the caches are most likely to have.
#include <algorithm>
#include <bit>
#include <utility>

#include "device/pdl.h"
#include "device/tile.h"
#include "gemm/fp16x3/split_kernels.h"
#include "gemm/fp16x3/scale.h"

namespace smem::gemm::fp16x3::split {
inline namespace SMEM_BUILD {
namespace {

/// Threads of a block, more where a line takes more; warps at most.
constexpr int BLOCK_THREADS = 256, MAX_THREADS = 1024, MAX_WARPS = MAX_THREADS / 32;
/// Threads that share a line at least, so that their runs are whole pieces.
constexpr int MIN_LINE_THREADS = PIECE / RUN;
/// Runs of a thread at most: 128 bytes, in 32 of the 64 registers with which 1024 threads run at
/// once on an SM. They have 128 KiB under way, where 26 to 40 cover the latency.
constexpr int MAX_RUNS = 8;

struct Rows {
  Split split;
  int64_t padded_length;
  uint32_t part_blocks;  ///< those of a part
  int line_level;        ///< 2^line_level threads share a line
  int64_t stretches;
};

/// RUNS: of a thread, fewer than MAX_RUNS only where MIN_LINE_THREADS share a line. LONG: a line
/// has several stretches.
template <bool WIDE, int RUNS, bool LONG>
__global__ void __launch_bounds__(RUNS < MAX_RUNS ? BLOCK_THREADS : MAX_THREADS)
    rows_kernel(const __grid_constant__ Rows rows) {
  __shared__ Tile<uint32_t, 3, MAX_WARPS> of_warps;
  launch_dependent_grids();
  const Split& split = rows.split;
  const int line_threads = 1 << rows.line_level, lane = threadIdx.x % 32;
  const int thread = static_cast<int>(threadIdx.x) & (line_threads - 1);
  const uint32_t index = blockIdx.x / rows.part_blocks;
  const uint32_t block = blockIdx.x - index * rows.part_blocks;
  const Part part(split, index);
  const int64_t line =
      int64_t{block} * (blockDim.x >> rows.line_level) + (threadIdx.x >> rows.line_level);
  using Position = std::conditional_t<LONG, int64_t, int>;
  const Position stretches = LONG ? rows.stretches : 1;
  const Position length = line < split.lines ? static_cast<Position>(part.length) : 0;
  const int64_t stride = WIDE ? 1 : split.stride;
  const float* const from = part.from + line * split.line_stride;

  // A thread's first run, and how far apart the runs of all threads are.
  const int first = thread * RUN, apart = line_threads * RUN;
  Run runs[RUNS] = {};
  const auto load_stretch = [&](Position stretch) {
    Position position = stretch * (RUNS * apart) + first;
    const float* next = from + position * stride;
#pragma unroll
    for (int r = 0; r < RUNS; ++r) {
      runs[r] = load_run<WIDE>(next, stride, length - position);
      position += apart;
      next += apart * stride;
    }
  };

  Extremes line_extremes;
  for (Position stretch = 0; stretch < stretches; ++stretch) {
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
      of_warps(2, warp) = line_extremes.second_less_one;
    }
    __syncthreads();
    const int of_line = (warp & -warps) + (lane & (warps - 1));
    line_extremes = {of_warps(0, of_line), of_warps(1, of_line), of_warps(2, of_line)};
    line_extremes = line_extremes.over_lanes(warps);
  }

  if (line >= split.lines) return;
  const Scale scale = scale_of(line_extremes);
  const int64_t stored = index * split.lines + line;
  if (thread == 0) store_scale(split, stored, scale);
  half* const to = static_cast<half*>(split.halves) + stored * 2 * rows.padded_length;
  for (Position stretch = stretches - 1; stretch >= 0; --stretch) {
    if (stretch < stretches - 1) load_stretch(stretch);
    Position position = stretch * (RUNS * apart) + first;
    half* next = to + place_of(position);
#pragma unroll
    for (int r = 0; r < RUNS; ++r) {
      if (position >= rows.padded_length) break;
      const Halves<RUN> halves(runs[r], scale);
      store_global_vector<RUN>(next, halves.hi);
      store_global_vector<RUN>(next + PIECE, halves.lo);
      position += apart;
      next += 2 * apart;
    }
  }
  // Read again, as this is seldom and all registers are taken.
  if (scale.mark == MENDED) {
    for (Position position = thread; position < length; position += line_threads) {
      store_rest(split, stored, position, load(from + position * stride), scale);
    }
  }
  wait_on_dependent_grids();
}

/// Takes members whose lines follow on each other as one, since no block serves two: with a line
/// or a few each, most threads of a block would have none.
Split merged(Split split) {
  if (split.parts > 1) return split;
  if (split.lines == 1) split.line_stride = split.member_stride;
  if (split.member_stride == split.lines * split.line_stride) {
    split.lines *= std::exchange(split.members, 1);
  }
  return split;
}

template <int RUNS, bool LONG>
void launch_rows(const Split& split, int line_threads, const Device& device, bool launch_with_pdl) {
  const int threads = std::max(BLOCK_THREADS, line_threads);
  const int64_t blocks = ceil_div(split.lines, threads / line_threads);
  const int64_t stretches = ceil_div(split.padded_length(), int64_t{RUNS * RUN} * line_threads);
  const bool wide = runs_are_wide(split, split.stride, split.length, split.line_stride);
  smem::launch("split_rows", wide ? rows_kernel<true, RUNS, LONG> : rows_kernel<false, RUNS, LONG>,
               {blocks * split.all_parts(), dim3(threads), 0, launch_with_pdl}, device,
               Rows{split, split.padded_length(), static_cast<uint32_t>(blocks),
                    std::countr_zero(static_cast<unsigned>(line_threads)), stretches});
}

}  // namespace

void rows(const Split& split, const Device& device, bool launch_with_pdl) {
  const int64_t runs = split.padded_length() / RUN;
  const auto power_from = [](int64_t count) {
    return static_cast<int>(std::bit_ceil(static_cast<uint64_t>(count)));
  };
  const int64_t needed = std::min<int64_t>(ceil_div(runs, MAX_RUNS), MAX_THREADS);
  const int threads = std::max(power_from(needed), MIN_LINE_THREADS);
  const int64_t runs_a_thread = ceil_div(runs, threads);
  const Split lines = merged(split);
  if (runs_a_thread <= 1) return launch_rows<1, false>(lines, threads, device, launch_with_pdl);
  if (runs_a_thread <= 2) return launch_rows<2, false>(lines, threads, device, launch_with_pdl);
  if (runs_a_thread <= 4) return launch_rows<4, false>(lines, threads, device, launch_with_pdl);
  if (runs_a_thread <= MAX_RUNS) return launch_rows<MAX_RUNS, false>(lines, threads, device, launch_with_pdl);
  launch_rows<MAX_RUNS, true>(lines, threads, device, launch_with_pdl);
}

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::fp16x3::split
