// The loops of a copy that goes through `out` in the order of its addresses, as strided_copy does.
#pragma once

#include <array>
#include <cstdint>

#include "transpose/transpose.h"

namespace smem::transpose {

/// rows, cols and the batch.
constexpr int MAX_LOOPS = MAX_RANK + 2;

/// A dimension of `in` and `out`; strides in elements.
struct Loop {
  int64_t size;
  std::array<int64_t, TENSORS> stride;
};

struct CopyOrder {
  int count = 0;                     ///< at least 1
  std::array<Loop, MAX_LOOPS> loop;  ///< from the smallest stride in `out` to the largest

  explicit CopyOrder(const Problem& problem);

  int64_t elements() const;
  /// The largest offset of an element.
  int64_t last_offset(Tensor tensor) const;
  /// Whether `out` has no gaps: an element's place is its number.
  bool is_out_dense() const;
  /// The segments of `in` that this many consecutive elements of `out` come from.
  struct Segment {
    int64_t needed, spanned;  ///< elements of the segment, and those from its first to its last
  };
  Segment segment(int64_t elements, int64_t max_gap) const;
};

}  // namespace smem::transpose
