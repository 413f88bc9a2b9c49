// Reduces a transpose to the equivalent problem with the fewest dimensions and the largest
// elements.
#pragma once

#include "bindings/layout.h"
#include "transpose/transpose.h"

namespace smem::bindings {

/// The layouts of the view x.transpose(dim0, dim1) and of out; strides are in elements.
struct TransposeLayout {
  size_t element_bytes;
  const void* in;
  void* out;
  Sizes sizes, in_strides, out_strides;
};

struct CollapsedTranspose {
  transpose::Problem problem;
  /// All dimensions of the batch; problem.batch has the innermost MAX_RANK of them.
  Dims<transpose::TENSORS> batch;

  /// Calls f(problem) for each index of the batch dimensions that are not in problem.batch: usually
  /// once.
  template <typename F>
  void for_each_problem(const F& f) const {
    batch.for_each_outer([&](const std::array<int64_t, transpose::TENSORS>& offsets) {
      const auto bytes = static_cast<int64_t>(problem.element_bytes);
      transpose::Problem shifted = problem;
      shifted.in = static_cast<const char*>(problem.in) + offsets[transpose::IN] * bytes;
      shifted.out = static_cast<char*>(problem.out) + offsets[transpose::OUT] * bytes;
      f(shifted);
    });
  }
};

/// A pure function. Dimensions of size 1 are dropped, dimensions that have a common stride in both
/// tensors are merged, and segments that are contiguous in both tensors become larger elements, of
/// up to 16 bytes. The rows are then the dimension with the smallest stride in out, the columns the
/// one with the smallest stride in x. If that is one dimension, it becomes the rows, and the
/// longest of the others becomes the columns (Problem::is_strided_copy).
CollapsedTranspose collapse(const TransposeLayout& layout);

}  // namespace smem::bindings
