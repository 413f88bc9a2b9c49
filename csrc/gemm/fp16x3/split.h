// Two fp16 numbers for a float32 one, so that tensor cores can multiply with float32's accuracy.
// For each line of an operand, a row of A or a column of B:
//
//   x = (hi + lo / 2^12) * 2^exponent     to a relative error below 2^-23
//
// and a product of two such lines is hi·hi + (hi·lo + lo·hi) / 2^12, times both powers of two. The
// idea is Ootomo and Yokota's; a power of two for each line keeps it within fp16's narrow range.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/launch.h"

namespace smem::gemm::fp16x3::split {

/// lo holds what hi leaves of an element, this many binades up.
constexpr int LO_SHIFT = 12;

/// Elements of a line whose hi stand together, and then their lo: 128 bytes, what the product reads
/// at once. Zeros fill up the last piece.
constexpr int PIECE = 32;

/// How far halves carry a line, by scale.h's rule.
enum Mark : uint8_t {
  CARRIED,
  MENDED,  ///< but for one element, too small for them, which is stored
  EXACT,   ///< not at all: its products must be computed another way
};

/// An operand to split: `members` matrices of `lines` lines of `length` elements. Strides in
/// elements, any value.
struct Split {
  const float* from;
  int64_t members, lines, length;
  int64_t member_stride, line_stride, stride;  ///< from member to member, line to line, in a line

  /// Lines may be cut into parts, of which the last may be shorter: each is split as if it were a
  /// line, with a scale of its own. The parts of a member follow each other as members do.
  int64_t part_length = length, parts = 1;

  // The results, part after part, line after line; the halves, pitch() of them a line, begin at a
  // multiple of 16 bytes. An EXACT line is zeros there.
  void* halves = nullptr;
  int32_t* exponent = nullptr;
  uint8_t* mark = nullptr;      ///< a Mark
  int64_t* position = nullptr;  ///< of the element that a MENDED line's halves leave out ...
  float* rest = nullptr;        ///< ... and that element; both 0 for other lines
  void* extremes = nullptr;     ///< to work in, where Workspace has bytes for them

  constexpr int64_t padded_length() const { return ceil_div(part_length, PIECE) * PIECE; }
  constexpr int64_t pitch() const { return 2 * padded_length(); }
  constexpr int64_t all_parts() const { return members * parts; }
  constexpr int64_t all_lines() const { return all_parts() * lines; }
};

/// Where the results of a Split lie in one stretch of memory: offsets in bytes, multiples of 256.
struct Workspace {
  size_t halves, exponent, mark, position, rest, extremes;
  size_t bytes;           ///< in all
  size_t extremes_bytes;  ///< 0 where the split needs none

  explicit Workspace(const Split& split);
  /// The split with its results in the `bytes` from `memory` on, a multiple of 256.
  Split place(Split split, void* memory) const;
};

/// Whether the elements of a line lie further apart than the lines do.
bool lines_lie_side_by_side(const Split& split);

/// Splits in one launch, or in two where very long lines lie side by side. Nothing in the workspace
/// needs to be initialised. `launch_with_pdl`: beside the kernel before, whose results it does not need;
/// whoever waits for this split has waited for that kernel too.
void run(const Split& split, const Device& device, Build build, bool launch_with_pdl = false);

}  // namespace smem::gemm::fp16x3::split
