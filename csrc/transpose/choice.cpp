// Which kernel `auto` runs: a function of the problem and the device alone.
#include "transpose/tiling.h"

namespace smem::transpose {

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
  const TileShape shape = tile_shape(problem, device);
  std::string reason = "tiles of " + std::to_string(shape.rows(bytes)) + "x" +
                       std::to_string(shape.cols(bytes)) + ", " + std::to_string(bytes) +
                       (bytes == 1 ? " byte an element" : " bytes an element");
  if (read == SHIFTED) reason += "; rows to read begin off 16 bytes";
  if (write == SHIFTED) reason += "; rows to write begin off 16 bytes";
  return {index_of(host_kernels(), "vectorized"), reason};
}

}  // namespace smem::transpose
