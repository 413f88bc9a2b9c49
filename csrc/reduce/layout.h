// Predicates on the layout of a problem: the vector widths that it allows.
#pragma once

#include "device/platform.h"
#include "reduce/reduce.h"

namespace smem::reduce::inline SMEM_BUILD {

/// Unaligned rows take row_per_warp_kernel from this many elements on, although some lanes idle:
/// those of 33 to 250 bfloat16 elements take 0.19 ns each, by single elements (reduce/short_rows.h)
/// 0.27 to 0.31.
constexpr int MIN_UNALIGNED_ELEMENTS = 33;

inline bool is_aligned(const Problem& problem, int width) {
  return reinterpret_cast<uintptr_t>(problem.in) % (width * size_of(problem.in_dtype)) == 0;
}

/// Returns whether the strides of the first `loops` loops are multiples of `width`.
template <int TENSORS>
bool strides_are_multiples(const OffsetCalculator<TENSORS>& loop, int loops, int width) {
  for (int d = 0; d < loops; ++d) {
    if (loop.stride[0][d] % width != 0) return false;
  }
  return true;
}

/// Returns whether `in` can be read by vectors of `width` elements along the only reduced loop.
inline bool rows_are_vectors(const Problem& problem, int width) {
  return problem.reduced.rank == 1 && problem.reduced.stride[0][0] == 1 &&
         is_aligned(problem, width) &&
         strides_are_multiples(problem.outputs, problem.outputs.rank, width);
}

/// Returns whether `in` can be read by vectors of `width` elements along the innermost of several
/// reduced loops.
inline bool nested_rows_are_vectors(const Problem& problem, int width) {
  const int inner = problem.reduced.rank - 1;
  return inner >= 0 && problem.reduced.stride[0][inner] == 1 &&
         problem.reduced.size[inner] % width == 0 && is_aligned(problem, width) &&
         strides_are_multiples(problem.reduced, inner, width) &&
         strides_are_multiples(problem.outputs, problem.outputs.rank, width);
}

/// Returns whether `in` can be read by vectors of `width` elements along the innermost loop of the
/// outputs.
inline bool columns_are_vectors(const Problem& problem, int width) {
  const int inner = problem.outputs.rank - 1;
  return inner >= 0 && problem.outputs.stride[IN][inner] == 1 &&
         problem.outputs.size[inner] % width == 0 && is_aligned(problem, width) &&
         strides_are_multiples(problem.outputs, inner, width) &&
         strides_are_multiples(problem.reduced, problem.reduced.rank, width);
}

}  // namespace smem::reduce::inline SMEM_BUILD
