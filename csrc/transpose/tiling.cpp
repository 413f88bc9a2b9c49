// How a problem is cut into tiles: a pure function of the problem and the device.
#include "transpose/tiling.h"

#include <algorithm>

namespace smem::transpose {

namespace {

/// The kernel without shared memory takes matrices above the first size, because smaller ones have
/// kernels of their own, and up to the second, because L2 then holds the whole output while it is
/// written. 4096 x 4096 of 2 bytes takes 18.9 us there and 19.9 us by tiles; 6144 x 6144 takes
/// 39.7 us there and 38.4 us by tiles (H200).
constexpr int64_t REGISTER_TRANSPOSE_ABOVE_BYTES = 2 << 20;
constexpr int64_t REGISTER_TRANSPOSE_MAX_BYTES = 40 << 20;
/// It takes matrices whose shorter side has at least this many bytes, and whose columns begin at
/// sectors in `out`.
constexpr int64_t REGISTER_TRANSPOSE_MIN_SIDE_BYTES = 64, SECTOR_BYTES = 32;
/// Matrices of 1-byte elements take tiles of 256 x 256 from this size on and 128 x 256 below it,
/// because DRAM gains from longer contiguous segments: 16384 x 16384 takes 132.3 us by the larger
/// tile and 134.4 us by the smaller one, 8192 x 8192 takes 36.8 us and 34.9 us (H200).
constexpr int64_t LARGE_TILE_MIN_BYTES = 128 << 20;

/// Whether the address of the matrix, the stride between its rows (`row_stride`) and all strides of
/// the batch are multiples of 16 bytes.
bool is_aligned(const Problem& problem, Tensor tensor, const void* data, int64_t row_stride) {
  const auto bytes = static_cast<int64_t>(problem.element_bytes);
  bool aligned = reinterpret_cast<uintptr_t>(data) % 16 == 0 && row_stride * bytes % 16 == 0;
  for (int d = 0; d < problem.batch.rank; ++d) {
    aligned &= problem.batch.stride[tensor][d] * bytes % 16 == 0;
  }
  return aligned;
}

/// The access to rows of `count` elements with stride `element_stride`.
AccessPattern access_pattern(const Problem& problem, Tensor tensor, const void* data, int64_t count,
                             int64_t element_stride, int64_t row_stride) {
  if (element_stride != 1 && count > 1) return STRIDED;
  return is_aligned(problem, tensor, data, row_stride) ? ALIGNED : UNALIGNED;
}

int64_t tiles_m(const Problem& problem, VectorizedTile tile) {
  return ceil_div(problem.rows, tile.rows(problem.element_bytes));
}
int64_t tiles_n(const Problem& problem, VectorizedTile tile) {
  return ceil_div(problem.cols, tile.cols(problem.element_bytes));
}

/// A model of the memory traffic in bytes: the bytes of all tiles, including the parts outside the
/// matrix, and one sector for each row and column segment of a tile, which is the sector that the
/// segment shares with the neighbouring tile.
int64_t traffic_bytes(const Problem& problem, VectorizedTile tile) {
  const int64_t m = tiles_m(problem, tile), n = tiles_n(problem, tile);
  return m * n * static_cast<int64_t>(tile.bytes(problem.element_bytes)) +
         SECTOR_BYTES * (problem.rows * n + problem.cols * m);
}

/// The tile of 2^log2_register_tiles register tiles with the least traffic.
VectorizedTile cheapest(const Problem& problem, int log2_register_tiles) {
  VectorizedTile best{.log2_m = 0, .log2_n = log2_register_tiles};
  for (int log2_m = 1; log2_m <= log2_register_tiles; ++log2_m) {
    const VectorizedTile tile{.log2_m = log2_m, .log2_n = log2_register_tiles - log2_m};
    if (traffic_bytes(problem, tile) < traffic_bytes(problem, best)) best = tile;
  }
  return best;
}

}  // namespace

AccessPattern read_access(const Problem& p) {
  // `vectorized` replaces a vector that crosses the end of the tensor by the last whole one, so the
  // matrix must contain a whole vector, and its rows must not overlap.
  const bool overlaps = p.rows > 1 && p.in_row_stride < p.cols;
  const int64_t span = (p.rows - 1) * p.in_row_stride + p.cols;
  const AccessPattern read = access_pattern(p, IN, p.in, p.cols, p.in_col_stride, p.in_row_stride);
  const bool fits = !overlaps && span >= 16 / static_cast<int64_t>(p.element_bytes);
  return read == ALIGNED && !fits ? UNALIGNED : read;
}
AccessPattern write_access(const Problem& p) {
  return access_pattern(p, OUT, p.out, p.rows, p.out_row_stride, p.out_col_stride);
}

VectorizedTile vectorized_tile(const Problem& problem, const Device& device) {
  const size_t bytes = problem.element_bytes;
  const int64_t batch = problem.batch.count();
  const int64_t shorter = std::min(problem.rows, problem.cols);
  const bool large =
      bytes > 1 || (problem.rows * problem.cols * batch >= LARGE_TILE_MIN_BYTES && shorter >= 256);
  const int largest =
      log2_of(VECTORIZED_MAX_THREADS * register_tiles_per_thread(bytes)) - (large ? 0 : 1);
  const int smallest =
      log2_of(element_config(bytes).min_threads * register_tiles_per_thread(bytes));
  VectorizedTile best = cheapest(problem, largest);
  for (int log2_tiles = largest - 1; log2_tiles >= smallest; --log2_tiles) {
    const VectorizedTile smaller = cheapest(problem, log2_tiles);
    const int64_t blocks = tiles_m(problem, best) * tiles_n(problem, best) * batch;
    const bool idle = blocks < 2 * device.sm_count;  // fewer than two blocks per SM
    const bool cheaper = 10 * traffic_bytes(problem, smaller) < 9 * traffic_bytes(problem, best);
    if (idle || cheaper) best = smaller;
  }
  return best;
}

bool use_register_transpose(const Problem& p) {
  const auto bytes = static_cast<int64_t>(p.element_bytes);
  const int64_t total_bytes = p.rows * p.cols * p.batch.count() * bytes;
  return bytes <= 8 && total_bytes > REGISTER_TRANSPOSE_ABOVE_BYTES &&
         total_bytes <= REGISTER_TRANSPOSE_MAX_BYTES &&
         std::min(p.rows, p.cols) * bytes >= REGISTER_TRANSPOSE_MIN_SIDE_BYTES &&
         p.out_col_stride * bytes % SECTOR_BYTES == 0 && read_access(p) == ALIGNED &&
         write_access(p) == ALIGNED;
}

}  // namespace smem::transpose
