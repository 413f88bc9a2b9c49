// Which kernel `auto` runs: a function of the problem and the device alone.
#include "transpose/gather_tile.h"
#include "transpose/tiling.h"

namespace smem::transpose {

namespace {

std::string tiles_of(int64_t rows, int64_t cols) {
  return "tiles of " + std::to_string(rows) + "x" + std::to_string(cols);
}

}  // namespace

Choice choose(const Problem& problem, const Device& device) {
  const size_t bytes = problem.element_bytes;
  if (problem.keeps_runs()) {
    const std::string run = std::to_string(problem.rows * static_cast<int64_t>(bytes));
    return {index_of(host_kernels(), "runs"), "runs of " + run + " bytes stay whole"};
  }
  const Access read = read_access(problem), write = write_access(problem);
  if (read == STRIDED || write == STRIDED) {
    return {index_of(host_kernels(), "padded"), "no run of 16 bytes on both sides"};
  }
  const std::string size =
      ", " + std::to_string(bytes) + (bytes == 1 ? " byte an element" : " bytes an element");
  if (read == ALIGNED && write == ALIGNED) {
    const TileShape shape = tile_shape(problem, device);
    return {index_of(host_kernels(), "vectorized"),
            tiles_of(shape.rows(bytes), shape.cols(bytes)) + size};
  }
  const GatherTile tile = gather_tile(problem, device);
  std::string reason = tile.members > 1
                           ? std::to_string(tile.members) + " matrices a block"
                           : tiles_of(int64_t{1} << tile.log2_rows, int64_t{1} << tile.log2_cols);
  reason += size;
  if (read == SHIFTED) reason += "; rows to read begin off 16 bytes";
  if (write == SHIFTED) reason += "; rows to write begin off 16 bytes";
  return {index_of(host_kernels(), "gathered"), reason};
}

}  // namespace smem::transpose
