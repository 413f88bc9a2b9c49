// Which kernel `auto` runs, and what widths of access a problem's layout allows.
#include <cstring>
#include <limits>
#include <stdexcept>

#include "sum/sum.h"

namespace smem::sum {
namespace {

/// Up to this many elements a thread does alone what would keep a warp half idle.
constexpr int64_t FEW_ELEMENTS = 64;

int index_of(const char* name) {
  const KernelTable table = host_kernels();
  for (int i = 0; i < table.count; ++i) {
    if (std::strcmp(table.kernels[i]->name, name) == 0) return i;
  }
  throw std::logic_error(std::string("smem.sum: no kernel '") + name + "'");
}

/// The step of the innermost loop; a loop that stays in place is no neighbourhood.
template <int TENSORS>
int64_t innermost_step(const Loop<TENSORS>& loop) {
  const int64_t step = loop.rank > 0 ? loop.stride[0][loop.rank - 1] : 0;
  return step == 0 ? std::numeric_limits<int64_t>::max() : step;
}

bool is_aligned(const Problem& problem, int width) {
  return reinterpret_cast<uintptr_t>(problem.in) % (width * size_of(problem.in_dtype)) == 0;
}

/// Whether the first `loops` loops step by multiples of `width`.
template <int TENSORS>
bool steps_by(const Loop<TENSORS>& loop, int loops, int width) {
  for (int d = 0; d < loops; ++d) {
    if (loop.stride[0][d] % width != 0) return false;
  }
  return true;
}

}  // namespace

bool rows_are_vectors(const Problem& problem, int width) {
  return problem.reduced.rank == 1 && problem.reduced.stride[0][0] == 1 &&
         is_aligned(problem, width) && steps_by(problem.outputs, problem.outputs.rank, width);
}

bool columns_are_vectors(const Problem& problem, int width) {
  const int inner = problem.outputs.rank - 1;
  return inner >= 0 && problem.outputs.stride[IN][inner] == 1 &&
         problem.outputs.size[inner] % width == 0 && is_aligned(problem, width) &&
         steps_by(problem.outputs, inner, width) && problem.reduced.rank <= 1 &&
         steps_by(problem.reduced, problem.reduced.rank, width);
}

Choice choose(const Problem& problem) {
  const int64_t along = innermost_step(problem.reduced), across = innermost_step(problem.outputs);
  if (across < along) {
    return {index_of("columns"), "outputs are nearer to each other than their elements"};
  }
  const int width = 16 / static_cast<int>(size_of(problem.in_dtype));
  if (problem.count <= FEW_ELEMENTS && problem.output_count > 1 &&
      !(problem.count % width == 0 && rows_are_vectors(problem, width))) {
    return {index_of("columns"), "too few elements for a warp, and not in whole vectors"};
  }
  return {index_of("rows"), "an output's elements are nearest to each other"};
}

}  // namespace smem::sum
