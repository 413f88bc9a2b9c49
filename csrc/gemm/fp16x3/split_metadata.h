// What the product must know of the lines of its operands beside their halves.
#pragma once

#include "gemm/fp16x3/split.h"

namespace smem::gemm::fp16x3 {

using split::EXACT;
using split::MENDED;
using split::Split;

/// What is known of the lines of an operand, and the operand itself: of the first member's first
/// part (split.h).
struct Lines {
  const int32_t* exponent;
  const uint8_t* mark;
  const int64_t* position;
  const float* rest;
  const float* from;
  int64_t line_stride, stride;
  int64_t lines, next_from;  ///< of a part; to the next part
  // To the next member's, 0 where all share.
  int64_t next_member_lines, next_member_from;

  explicit Lines(const Split& split)
      : exponent(split.exponent),
        mark(split.mark),
        position(split.position),
        rest(split.rest),
        from(split.from),
        line_stride(split.line_stride),
        stride(split.stride),
        lines(split.lines),
        next_from(split.part_length * split.stride),
        next_member_lines(split.members > 1 ? split.parts * split.lines : 0),
        next_member_from(split.members > 1 ? split.member_stride : 0) {}
};

inline namespace SMEM_BUILD {

__device__ __forceinline__ Lines lines_of(Lines lines, int64_t member, int64_t part = 0) {
  const int64_t first = member * lines.next_member_lines + part * lines.lines;
  lines.exponent += first;
  lines.mark += first;
  lines.position += first;
  lines.rest += first;
  lines.from += member * lines.next_member_from + part * lines.next_from;
  return lines;
}

/// x * 2^exponent in two steps, as 2^exponent itself may lie outside float32's range.
__device__ __forceinline__ float scaled(float x, int exponent) {
  const auto power = [](int e) { return __int_as_float((e + 127) << 23); };
  exponent = min(max(exponent, -252), 254);
  const int half = exponent >> 1;
  return x * power(half) * power(exponent - half);
}

/// `sum` and the products of what halves leave of the two lines, if they are MENDED: of the row of
/// A with B, then of the column of B with A, unless the first was that product.
template <typename Sum>
__device__ __forceinline__ Sum mended(const Lines& a, int64_t row, const Lines& b, int64_t col,
                                      Sum sum) {
  const bool row_is_mended = a.mark[row] == MENDED;
  if (row_is_mended) {
    const float of_b = b.from[col * b.line_stride + a.position[row] * b.stride];
    sum = fma(Sum{a.rest[row]}, Sum{of_b}, sum);
  }
  if (b.mark[col] == MENDED && !(row_is_mended && a.position[row] == b.position[col])) {
    const float of_a = a.from[row * a.line_stride + b.position[col] * a.stride];
    sum = fma(Sum{of_a}, Sum{b.rest[col]}, sum);
  }
  return sum;
}

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::fp16x3
