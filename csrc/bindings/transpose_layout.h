// The smallest problem that is the same transpose: fewest dimensions, largest elements.
#pragma once

#include "bindings/layout.h"
#include "transpose/transpose.h"

namespace smem::bindings {

/// What the tensors say: strides in elements, of the view x.transpose(dim0, dim1) and of out.
struct TransposeLayout {
  size_t element_bytes;
  const void* in;
  void* out;
  Sizes sizes, in_strides, out_strides;
};

struct CollapsedTranspose {
  transpose::Problem problem;
  Dims<transpose::TENSORS> batch;  ///< all of it; the problem's loop has the innermost MAX_RANK

  /// Calls f(problem) for each iteration of what does not fit into the problem's loop: once, most
  /// often.
  template <typename F>
  void for_each_problem(const F& f) const {
    batch.for_each_outer([&](const std::array<int64_t, transpose::TENSORS>& offsets) {
      const auto bytes = static_cast<int64_t>(problem.element_bytes);
      transpose::Problem at = problem;
      at.in = static_cast<const char*>(problem.in) + offsets[transpose::IN] * bytes;
      at.out = static_cast<char*>(problem.out) + offsets[transpose::OUT] * bytes;
      f(at);
    });
  }
};

/// Pure. Dimensions of one iteration vanish, dimensions that one loop can run through in both
/// tensors become one, and runs that both tensors keep whole become larger elements, up to 16
/// bytes. Rows are then the dimension that is densest in out, columns the one densest in x; where
/// one dimension is both, it is the rows, and the columns are the longest of the others
/// (Problem::keeps_runs).
CollapsedTranspose collapse(const TransposeLayout& layout);

}  // namespace smem::bindings
