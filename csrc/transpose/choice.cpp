// Which kernel `auto` runs, and how it cuts the problem into tiles: functions of the problem and
// the device alone.
#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>

#include "transpose/tiling.h"

namespace smem::transpose {

namespace {

int index_of(const char* name) {
  const KernelTable table = host_kernels();
  for (int i = 0; i < table.count; ++i) {
    if (std::strcmp(table.kernels[i]->name, name) == 0) return i;
  }
  throw std::logic_error(std::string("smem.transpose: no kernel '") + name + "'");
}

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

int64_t tiles(const Problem& problem, TileShape shape) {
  return ceil_div(problem.rows, shape.rows(problem.element_bytes)) *
         ceil_div(problem.cols, shape.cols(problem.element_bytes));
}

/// Of the tiles of 2^log2_blocks sub-blocks the squarest that needs at most a quarter more tiles
/// than the best.
TileShape squarest(const Problem& problem, int log2_blocks) {
  const auto shape = [&](int down) { return TileShape{down, log2_blocks - down}; };
  int64_t fewest = tiles(problem, shape(0));
  for (int down = 1; down <= log2_blocks; ++down) {
    fewest = std::min(fewest, tiles(problem, shape(down)));
  }
  for (int off = 0;; ++off) {  // from the middle outwards: 0, 1, -1, 2, -2 ...
    const int down = log2_blocks / 2 + (off % 2 ? (off + 1) / 2 : -off / 2);
    if (down < 0 || down > log2_blocks) continue;
    if (4 * tiles(problem, shape(down)) <= 5 * fewest) return shape(down);
  }
}

int log2(int64_t power) { return std::countr_zero(static_cast<uint64_t>(power)); }

}  // namespace

Access read_access(const Problem& p) {
  // Whole vectors must lie in the matrix, and each of its elements but once.
  const int64_t width = 16 / static_cast<int64_t>(p.element_bytes);
  const bool overlaps = p.rows > 1 && p.in_row_stride < p.cols;
  if (overlaps || (p.rows - 1) * p.in_row_stride + p.cols < 2 * width) return STRIDED;
  return access(p, IN, p.in, p.cols, p.in_col_stride, p.in_row_stride);
}
Access write_access(const Problem& p) {
  return access(p, OUT, p.out, p.rows, p.out_row_stride, p.out_col_stride);
}

TileShape tile_shape(const Problem& problem, const Device& device) {
  const size_t bytes = problem.element_bytes;
  const int largest = log2(max_threads(bytes) * blocks_a_thread(bytes));
  const int smallest = log2(MIN_THREADS * blocks_a_thread(bytes));
  const int64_t batch = problem.batch.count();
  TileShape best = squarest(problem, largest);
  for (int log2_blocks = largest - 1; log2_blocks >= smallest; --log2_blocks) {
    const TileShape smaller = squarest(problem, log2_blocks);
    const bool idle = tiles(problem, best) * batch < 2 * device.multiprocessors;
    // A smaller tile pays where it covers a fifth less beyond the matrix's edges.
    const bool tighter = 5 * (tiles(problem, smaller) << log2_blocks) <=
                         4 * (tiles(problem, best) << best.log2_blocks());
    if (idle || tighter) best = smaller;
  }
  return best;
}

int log2_run(const Problem& problem) {
  const int64_t most = RUNS_THREADS * RUNS_A_THREAD;
  return problem.rows >= most
             ? log2(most)
             : log2(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(problem.rows))));
}

Choice choose(const Problem& problem, const Device& device) {
  const size_t bytes = problem.element_bytes;
  if (problem.keeps_runs()) {
    const std::string run = std::to_string(problem.rows * static_cast<int64_t>(bytes));
    return {index_of("runs"), "runs of " + run + " bytes stay whole"};
  }
  const Access read = read_access(problem), write = write_access(problem);
  if (read == STRIDED || write == STRIDED) {
    return {index_of("padded"), "no run of 16 bytes on both sides"};
  }
  const TileShape shape = tile_shape(problem, device);
  std::string reason = "tiles of " + std::to_string(shape.rows(bytes)) + "x" +
                       std::to_string(shape.cols(bytes)) + ", " + std::to_string(bytes) +
                       (bytes == 1 ? " byte an element" : " bytes an element");
  if (read == SHIFTED) reason += "; rows to read begin off 16 bytes";
  if (write == SHIFTED) reason += "; rows to write begin off 16 bytes";
  return {index_of("vectorized"), reason};
}

}  // namespace smem::transpose
