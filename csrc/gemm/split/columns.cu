// columns: the whole split where lines lie side by side, in one launch. Threads keep 16 lines in
// their registers between finding the lines' extremes and splitting them, 8 elements of 4 lines
// each: they read 16 bytes at a time, turn them by naming registers, and write 16 bytes of hi and
// of lo for each line. Eight lanes read 4 lines' elements in a row, four others the next lines', so
// that a line's halves are written as 64 bytes of hi and 64 of lo: whole sectors.
//
// 32 to 256 threads share 16 lines, by powers of two: 512 elements a line. With 1024 threads, of
// which the registers hold few blocks at once, lines of 1024 took 8 us longer than two launches do.
#include <algorithm>
#include <bit>

#include "device/programmatic.h"
#include "device/tile.h"
#include "gemm/split/kernels.h"
#include "gemm/split/scale.h"

namespace smem::gemm::split {
inline namespace SMEM_BUILD {
namespace {

/// Threads of a block, more where lines take more; warps at most.
constexpr int LEAST_THREADS = 128, MOST_THREADS = 256, MOST_WARPS = MOST_THREADS / 32;
/// Lines that threads share, and lanes that are beside each other across them.
constexpr int LINES = 16, ACROSS = LINES / RUN;
constexpr int OWN = 8;  ///< elements of a line that a thread has: 16 bytes of hi, and of lo
static_assert(32 / ACROSS * OWN % PIECE == 0, "a warp has whole pieces");
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
  __shared__ Tile<uint32_t, 3 * MOST_WARPS, LINES> of_warps;
  let_next_begin();
  const Split& split = columns.split;
  const int line_threads = columns.line_threads, lane = threadIdx.x % 32;
  const int thread = static_cast<int>(threadIdx.x) & (line_threads - 1);
  const int in_tile = thread % ACROSS * RUN, along = thread / ACROSS;
  const uint32_t index = blockIdx.x / columns.part_blocks;
  const uint32_t block = blockIdx.x - index * columns.part_blocks;
  const Part part(split, index);
  const int64_t line =
      (int64_t{block} * (blockDim.x / line_threads) + threadIdx.x / line_threads) * LINES + in_tile;
  const int64_t lines_left = split.lines - line, line_stride = WIDE ? 1 : split.line_stride;
  const int first = along * OWN, length = static_cast<int>(part.length);
  const float* const from = part.from + line * line_stride;

  Run runs[OWN];
#pragma unroll
  for (int i = 0; i < OWN; ++i) {
    runs[i] = load_run<WIDE>(from + (first + i) * split.stride, line_stride,
                             first + i < length ? lines_left : 0);
  }
  Extremes of_lines[RUN];
#pragma unroll
  for (int i = 0; i < OWN * RUN; ++i) of_lines[i % RUN].add(runs[i / RUN].lane[i % RUN]);
#pragma unroll
  for (Extremes& of_line : of_lines) of_line = of_line.over_lanes(32, ACROSS);
  if (line_threads > 32) {
    const int warp = threadIdx.x / 32, warps = line_threads / 32;
    if (lane < ACROSS) {
      Vector<uint32_t, RUN> largest, least, second;
#pragma unroll
      for (int i = 0; i < RUN; ++i) {
        largest.lane[i] = of_lines[i].largest;
        least.lane[i] = of_lines[i].least_less_one;
        second.lane[i] = of_lines[i].second_less_one;
      }
      store_vector<RUN>(of_warps.at(3 * warp, in_tile), largest);
      store_vector<RUN>(of_warps.at(3 * warp + 1, in_tile), least);
      store_vector<RUN>(of_warps.at(3 * warp + 2, in_tile), second);
    }
    __syncthreads();
#pragma unroll
    for (Extremes& of_line : of_lines) of_line = {};
    for (int i = lane / ACROSS; i < warps; i += 32 / ACROSS) {
      const int other = (warp & -warps) + i;
      const auto largest = load_vector<RUN>(of_warps.at(3 * other, in_tile));
      const auto least = load_vector<RUN>(of_warps.at(3 * other + 1, in_tile));
      const auto second = load_vector<RUN>(of_warps.at(3 * other + 2, in_tile));
#pragma unroll
      for (int j = 0; j < RUN; ++j) {
        of_lines[j].add({largest.lane[j], least.lane[j], second.lane[j]});
      }
    }
#pragma unroll
    for (Extremes& of_line : of_lines) of_line = of_line.over_lanes(32, ACROSS);
  }

  half* const to = static_cast<half*>(split.halves) +
                   (index * split.lines + line) * 2 * columns.padded_length + place_of(first);
  Vector<int, RUN> codes{};  // of the scales
#pragma unroll
  for (int l = 0; l < RUN; ++l) {
    if (l >= lines_left || first >= columns.padded_length) continue;
    const Scale scale = scale_of(of_lines[l]);
    codes.lane[l] = scale.code();
    if (along == 0) store_scale(split, index * split.lines + line + l, scale);
    Vector<float, OWN> elements;
#pragma unroll
    for (int i = 0; i < OWN; ++i) elements.lane[i] = runs[i].lane[l];
    const Halves<OWN> halves(elements, scale);
    store_global_vector<OWN>(to + l * 2 * columns.padded_length, halves.hi);
    store_global_vector<OWN>(to + l * 2 * columns.padded_length + PIECE, halves.lo);
  }
  // Loops, and read again: seldom, and as straight code twice all that stands before.
#pragma unroll 1
  for (int l = 0; l < RUN; ++l) {
    const Scale scale = Scale::of_code(codes.lane[0]);
#pragma unroll
    for (int next = 1; next < RUN; ++next) codes.lane[next - 1] = codes.lane[next];
    if (scale.mark != MENDED) continue;
#pragma unroll 1
    for (int i = first; i < first + OWN && i < length; ++i) {
      store_rest(split, index * split.lines + line + l, i,
                 load(from + l * line_stride + i * split.stride), scale);
    }
  }
  wait_for_previous();
}

}  // namespace

void columns(const Split& split, const Device& device, bool early) {
  const auto needed = static_cast<uint64_t>(split.padded_length() / OWN * ACROSS);
  const int line_threads = std::max(static_cast<int>(std::bit_ceil(needed)), 32);
  const int threads = std::max(LEAST_THREADS, line_threads);
  const int64_t blocks = ceil_div(split.lines, int64_t{threads / line_threads} * LINES);
  const bool wide = runs_are_wide(split, split.line_stride, split.lines, split.stride);
  smem::launch("split_columns", wide ? columns_kernel<true> : columns_kernel<false>,
               {blocks * split.all_parts(), dim3(threads), 0, early}, device,
               Columns{split, split.padded_length(), static_cast<uint32_t>(blocks), line_threads});
}

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::split
