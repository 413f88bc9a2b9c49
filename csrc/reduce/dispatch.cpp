// The choice between `rows` and `columns` by kernel="auto".
#include "reduce/dispatch.h"

#include <limits>

#include "reduce/layout.h"

namespace smem::reduce {
namespace {

/// The most elements per output for which one thread per output is faster than a warp, half of
/// which would be idle.
constexpr int64_t FEW_ELEMENTS = 64;

/// The stride of the innermost loop. Stride 0 (a broadcast dimension) counts as the largest stride.
template <int TENSORS>
int64_t innermost_stride(const OffsetCalculator<TENSORS>& loop) {
  const int64_t step = loop.rank > 0 ? loop.stride[0][loop.rank - 1] : 0;
  return step == 0 ? std::numeric_limits<int64_t>::max() : step;
}

/// Returns whether row_per_warp_kernel of `rows` takes the problem, and its rows are so few that a
/// thread per row would mainly wait: 3,528 rows of 45 float32 take 2.1 us instead of 3.7, 10,000
/// 3.4 instead of 4.4, but 100,000 would take 20.5 instead of 11.3. Up to 32 elements wait once.
bool are_few_rows(const Problem& problem) {
  constexpr int64_t MAX_ROWS = 8192;
  const size_t bytes = size_of(problem.in_dtype);
  return problem.output_count <= MAX_ROWS && problem.count >= MIN_UNALIGNED_ELEMENTS &&
         (bytes <= 2 || problem.in_dtype == DType::f32) && problem.outputs.rank == 1 &&
         rows_are_vectors(problem, 1) && problem.elements_per_partial > 1;
}

}  // namespace

Choice choose(const Problem& problem) {
  const int64_t reduced_stride = innermost_stride(problem.reduced),
                output_stride = innermost_stride(problem.outputs);
  if (output_stride < reduced_stride) {
    return {index_of(host_kernels(), "columns"),
            "outputs are nearer to each other than their elements"};
  }
  const int width = 16 / static_cast<int>(size_of(problem.in_dtype));
  if (problem.count <= FEW_ELEMENTS && problem.output_count > 1 && !are_few_rows(problem) &&
      !(problem.count % width == 0 && rows_are_vectors(problem, width))) {
    return {index_of(host_kernels(), "columns"),
            "too few elements for a warp, and not in whole vectors"};
  }
  return {index_of(host_kernels(), "rows"), "an output's elements are nearest to each other"};
}

}  // namespace smem::reduce
