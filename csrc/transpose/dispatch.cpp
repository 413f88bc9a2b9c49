// Which kernel `auto` runs: a function of the problem and the device alone.
#include <algorithm>

#include "transpose/dispatch.h"
#include "transpose/unaligned_tile.h"
#include "transpose/tiling.h"

namespace smem::transpose {

namespace {

/// Up to so many bytes a transpose is over before many vectors a thread come to pay. 1 MiB of bytes
/// takes 5.7 us by `swizzled`, one vector a thread, and 6.9 by `vectorized`; where rows begin
/// anywhere, 7.5 by `padded`, element by element, and 11.2 by `unaligned`.
constexpr int64_t SMALL_BYTES = 2 << 20;
/// What a tile of `swizzled` has of a row, and of a column.
constexpr int64_t SMALL_RUN_BYTES = 128;

bool is_small(const Problem& problem) {
  const auto bytes = static_cast<int64_t>(problem.element_bytes);
  return problem.rows * problem.cols * problem.batch.count() * bytes <= SMALL_BYTES &&
         std::min(problem.rows, problem.cols) * bytes >= SMALL_RUN_BYTES;
}

std::string tiles_of(int64_t rows, int64_t cols) {
  return "tiles of " + std::to_string(rows) + "x" + std::to_string(cols);
}

}  // namespace

Choice choose(const Problem& problem, const Device& device) {
  const size_t bytes = problem.element_bytes;
  if (problem.keeps_runs()) {
    const std::string run = std::to_string(problem.rows * static_cast<int64_t>(bytes));
    return {index_of(host_kernels(), "strided_copy"), "runs of " + run + " bytes stay whole"};
  }
  const Access read = read_access(problem), write = write_access(problem);
  if (read == STRIDED || write == STRIDED) {
    return {index_of(host_kernels(), "padded"), "no run of 16 bytes on both sides"};
  }
  const std::string size =
      ", " + std::to_string(bytes) + (bytes == 1 ? " byte an element" : " bytes an element");
  if (read == ALIGNED && write == ALIGNED) {
    if (bytes <= 4 && is_small(problem)) {
      return {index_of(host_kernels(), "swizzled"), "no more than 2 MiB" + size};
    }
    if (takes_squares(problem)) {
      return {index_of(host_kernels(), "vectorized"),
              tiles_of(squares_rows(bytes), squares_cols(bytes)) + ", in registers" + size};
    }
    const TileShape shape = tile_shape(problem, device);
    return {index_of(host_kernels(), "vectorized"),
            tiles_of(shape.rows(bytes), shape.cols(bytes)) + size};
  }
  if (bytes <= 2 && is_small(problem)) {
    return {index_of(host_kernels(), "padded"),
            "no more than 2 MiB, in rows that begin anywhere" + size};
  }
  const GatherTile tile = gather_tile(problem, device);
  std::string reason = tile.members > 1 ? std::to_string(tile.members) + " matrices a block"
                       : tile.rows != 0
                           ? tiles_of(tile.rows, tile.cols)
                           : tiles_of(int64_t{1} << tile.log2_rows, int64_t{1} << tile.log2_cols);
  reason += size;
  if (read == SHIFTED) reason += "; rows to read begin off 16 bytes";
  if (write == SHIFTED) reason += "; rows to write begin off 16 bytes";
  return {index_of(host_kernels(), "unaligned"), reason};
}

}  // namespace smem::transpose
