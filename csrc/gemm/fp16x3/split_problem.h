// The split operands of a problem, and a split of B that is kept from call to call.
//
// A kept split is one allocation of b_split_bytes: what SplitWorkspace (split.h) lays out for B,
// but for the scratch memory. In this order, each part at a multiple of 256 bytes:
//
//   hi_lo       per column of B: 32 hi, 32 lo, the next 32 hi, ... to the end of K, padded with
//               zeros to a multiple of 32; with split-K, k slice after k slice
//   exponent    int32 per column and k slice: the columns' powers of two
//   status      uint8: a SplitStatus. The float32 B is still needed for FALLBACK columns, and for
//               the products of A's outliers.
//   outlier_k   int64 and
//   outlier     float: the position and value of a ONE_OUTLIER column's outlier
//
// So it has as many bytes as B, and 17 more per column and k slice. It depends on the elements, N
// and K alone: not on B's strides, M or the device.
#pragma once

#include "gemm/fp16x3/split.h"
#include "gemm/gemm.h"

namespace smem::gemm::fp16x3 {

/// The operand for the split of A or B, for one launch. The rows of B's split are B's columns.
split::SplitOperand operand_of(const Problem& problem, Tensor tensor);

/// Bytes of the split of B that can be kept for Problem::b_split. B must be one matrix.
size_t b_split_bytes(const Problem& problem);

/// Bytes of the scratch memory that split_b needs; may be 0.
size_t b_split_scratch_bytes(const Problem& problem);

/// Splits B into the memory at `b_split`. Of the problem only N, K and B are used.
void split_b(const Problem& problem, void* b_split, void* scratch, const Device& device);

/// B with its results in the memory at `b_split`.
split::SplitOperand bind_b_split(const Problem& problem, void* b_split);

}  // namespace smem::gemm::fp16x3
