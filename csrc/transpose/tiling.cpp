// How the problem is cut into tiles: a function of the problem and the device alone.
#include "transpose/tiling.h"

#include <algorithm>
#include <bit>

namespace smem::transpose {

namespace {

/// From so many bytes, what `auto` has no other kernel for, up to so many, all of which L2 holds
/// while they are written: 4096 x 4096 of 2 bytes takes 18.9 us, 19.9 by tiles; 6144 x 6144 39.7
/// and 38.4.
constexpr int64_t SQUARES_FROM_BYTES = 2 << 20, SQUARES_TO_BYTES = 40 << 20;
/// From so many, matrices of bytes take tiles of 256 x 256 instead of 128 x 256: DRAM likes longer
/// runs. 16384 x 16384 takes 132.3 us instead of 134.4, 8192 x 8192 36.8 and 34.9.
constexpr int64_t LARGE_TILES_FROM_BYTES = 128 << 20;
/// Runs are not shorter, and begin at sectors where they are written.
constexpr int64_t SQUARES_RUN_BYTES = 64, SECTOR_BYTES = 32;

/// Whether 16 bytes divide the step from line to line and all steps of the batch, and the matrix
/// begins at such an address.
bool is_aligned(const Problem& problem, Tensor tensor, const void* data, int64_t line_stride) {
  const auto bytes = static_cast<int64_t>(problem.element_bytes);
  bool aligned = reinterpret_cast<uintptr_t>(data) % 16 == 0 && line_stride * bytes % 16 == 0;
  for (int d = 0; d < problem.batch.rank; ++d) {
    aligned &= problem.batch.stride[tensor][d] * bytes % 16 == 0;
  }
  return aligned;
}

Access access(const Problem& problem, Tensor tensor, const void* data, int64_t count, int64_t step,
              int64_t line_stride) {
  if (step != 1 && count > 1) return STRIDED;
  return is_aligned(problem, tensor, data, line_stride) ? ALIGNED : SHIFTED;
}

int64_t tiles_down(const Problem& problem, TileShape shape) {
  return ceil_div(problem.rows, shape.rows(problem.element_bytes));
}
int64_t tiles_across(const Problem& problem, TileShape shape) {
  return ceil_div(problem.cols, shape.cols(problem.element_bytes));
}

/// Bytes of all tiles, whether the matrix fills them or not, and a sector of 32 bytes for each run
/// that a tile reads or writes: the one that it shares with its neighbour.
int64_t cost(const Problem& problem, TileShape shape) {
  const int64_t down = tiles_down(problem, shape), across = tiles_across(problem, shape);
  return down * across * static_cast<int64_t>(shape.bytes(problem.element_bytes)) +
         32 * (problem.rows * across + problem.cols * down);
}

/// Of the tiles of 2^log2_blocks sub-blocks the one with the least cost.
TileShape cheapest(const Problem& problem, int log2_blocks) {
  TileShape best{0, log2_blocks};
  for (int down = 1; down <= log2_blocks; ++down) {
    const TileShape shape{down, log2_blocks - down};
    if (cost(problem, shape) < cost(problem, best)) best = shape;
  }
  return best;
}

}  // namespace

Access read_access(const Problem& p) {
  // `vectorized` reads each vector that lies in the matrix for a place of its own.
  const bool overlaps = p.rows > 1 && p.in_row_stride < p.cols;
  const int64_t span = (p.rows - 1) * p.in_row_stride + p.cols;
  const Access read = access(p, IN, p.in, p.cols, p.in_col_stride, p.in_row_stride);
  const bool fits = !overlaps && span >= 16 / static_cast<int64_t>(p.element_bytes);
  return read == ALIGNED && !fits ? SHIFTED : read;
}
Access write_access(const Problem& p) {
  return access(p, OUT, p.out, p.rows, p.out_row_stride, p.out_col_stride);
}

TileShape tile_shape(const Problem& problem, const Device& device) {
  const size_t bytes = problem.element_bytes;
  const int64_t batch = problem.batch.count();
  const int64_t shorter = std::min(problem.rows, problem.cols);
  const bool large = bytes > 1 || (problem.rows * problem.cols * batch >= LARGE_TILES_FROM_BYTES &&
                                   shorter >= 256);
  const int largest = log2_of(MAX_THREADS * blocks_a_thread(bytes)) - (large ? 0 : 1);
  const int smallest = log2_of(min_threads(bytes) * blocks_a_thread(bytes));
  TileShape best = cheapest(problem, largest);
  for (int log2_blocks = largest - 1; log2_blocks >= smallest; --log2_blocks) {
    const TileShape smaller = cheapest(problem, log2_blocks);
    const int64_t blocks = tiles_down(problem, best) * tiles_across(problem, best) * batch;
    const bool idle = blocks < 2 * device.sm_count;
    if (idle || 10 * cost(problem, smaller) < 9 * cost(problem, best)) best = smaller;
  }
  return best;
}

bool takes_squares(const Problem& p) {
  const auto bytes = static_cast<int64_t>(p.element_bytes);
  const int64_t all = p.rows * p.cols * p.batch.count() * bytes;
  return bytes <= 8 && all > SQUARES_FROM_BYTES && all <= SQUARES_TO_BYTES &&
         std::min(p.rows, p.cols) * bytes >= SQUARES_RUN_BYTES &&
         p.out_col_stride * bytes % SECTOR_BYTES == 0 && read_access(p) == ALIGNED &&
         write_access(p) == ALIGNED;
}

int log2_run(const Problem& problem) {
  constexpr int MOST = RUNS_THREADS * RUNS_A_THREAD;
  if (problem.rows >= MOST) return log2_of(MOST);
  return log2_of(static_cast<int>(std::bit_ceil(static_cast<unsigned>(problem.rows))));
}

}  // namespace smem::transpose
