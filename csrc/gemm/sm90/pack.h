// Copies operands that TMA cannot read in place.
#pragma once

#include "gemm/gemm.h"
#include "gemm/sm90/heuristics.h"

namespace smem::gemm::sm90::inline SMEM_BUILD {

/// Copies an operand to `to`, in the layout of `desc`. The strides are those of the original.
struct PackRequest {
  const OperandDesc* desc;
  const void* from;
  int64_t inner_stride, outer_stride, batch_stride;
  void* to;
};

/// Copies `count` operands, one or two, in one launch. Those of float32 must have an inner_stride
/// of 1.
void pack(const PackRequest* requests, int count, DType dtype, const Device& device);

}  // namespace smem::gemm::sm90::inline SMEM_BUILD
