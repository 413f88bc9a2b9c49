// Copies of operands that TMA cannot read in place.
#pragma once

#include "gemm/gemm.h"
#include "gemm/sm90/heuristics.h"

namespace smem::gemm::sm90 {

/// An operand to copy to `to` as `source` says. Strides of the original: along a line, from line to
/// line and along the batch.
struct Packing {
  const Source* source;
  const void* from;
  int64_t step, line_step, member_step;
  void* to;
};

/// Copies `count` operands, one or two, in one launch; floats have neighbours along a line.
void pack(const Packing* packings, int count, DType dtype, const Device& device);

}  // namespace smem::gemm::sm90
