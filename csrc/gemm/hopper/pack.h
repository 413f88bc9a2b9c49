// Copies of operands that the copy engine cannot read in place.
#pragma once

#include "gemm/gemm.h"
#include "gemm/hopper/plan.h"

namespace smem::gemm::hopper {

/// Copies an operand to `to` as `source` says; `step` and `line_step` are the original's strides
/// along a line and from line to line, `member_step` along the batch.
void pack(const Source& source, const void* from, int64_t step, int64_t line_step,
          int64_t member_step, void* to, const Device& device);

}  // namespace smem::gemm::hopper
