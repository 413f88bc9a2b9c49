// Which kernel `auto` runs, and what a kernel asked for by name requires.
#include <cstring>
#include <stdexcept>

#include "gemm/gemm.h"

namespace smem::gemm {

void check_requirements(const Kernel& kernel, const Problem& problem, const Device& device) {
  if (!kernel.largest_k) return;
  const int64_t largest = kernel.largest_k(problem.dtype, device.shared_bytes);
  if (problem.K <= largest) return;
  throw std::runtime_error(std::string("smem.gemm: kernel '") + kernel.name +
                           "' needs shared memory in proportion to K; with " +
                           std::to_string(device.shared_bytes) + " bytes a block the largest K is " +
                           std::to_string(largest) + " for " + name_of(problem.dtype) + ", got " +
                           std::to_string(problem.K));
}

namespace {
int index_of(const char* name) {
  const KernelTable table = kernels(true);
  for (int i = 0; i < table.count; ++i) {
    if (std::strcmp(table.kernels[i]->name, name) == 0) return i;
  }
  throw std::logic_error(std::string("smem.gemm: no kernel '") + name + "'");
}
}  // namespace

Choice choose(const Problem& problem, const Device& device) {
  const int64_t tile = problem.dtype == DType::f64 ? 64 : 128;
  const int64_t tiles =
      ceil_div(problem.M, tile) * ceil_div(problem.N, tile) * problem.batch.count();
  const bool narrow = problem.M <= tile / 4 || problem.N <= tile / 4;
  const std::string size = std::to_string(tile);
  const std::string count = std::to_string(tiles) + " tiles of " + size + "x" + size + " for " +
                            std::to_string(device.multiprocessors) + " multiprocessors";
  // Below a third of a wave the large tile leaves most of the chip idle.
  if (narrow) return {index_of("vectorized"), "M or N fills at most a quarter of a " + size + " tile"};
  if (3 * tiles < device.multiprocessors) return {index_of("vectorized"), "only " + count};
  return {index_of("double_buffered"), count};
}

}  // namespace smem::gemm
