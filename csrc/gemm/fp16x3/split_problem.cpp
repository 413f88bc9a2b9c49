// The split operands of a problem, and a split of B that is kept from call to call.
#include "gemm/fp16x3/split_problem.h"

#include "gemm/batch.h"
#include "gemm/fp16x3/split_k.h"

namespace smem::gemm::fp16x3 {

using split::SplitOperand;
using split::SplitWorkspace;

SplitOperand operand_of(const Problem& problem, Tensor tensor) {
  const bool is_a = tensor == A;
  const Operand& operand = is_a ? problem.a : problem.b;
  const int64_t batch_stride = inner_batch_stride(problem, tensor);
  const SplitKConfig split_k(problem.N, problem.K);
  return {
      .src = static_cast<const float*>(operand.data),
      .batch_count = batch_stride == 0 ? 1 : inner_batch_count(problem),
      .mn = is_a ? problem.M : problem.N,
      .k = problem.K,
      .batch_stride = batch_stride,
      .mn_stride = is_a ? operand.row_stride : operand.col_stride,
      .k_stride = is_a ? operand.col_stride : operand.row_stride,
      .k_slice_length = split_k.slice_length,
      .k_slices = split_k.slices,
  };
}

// The scratch memory is the last part of the workspace.
size_t b_split_bytes(const Problem& problem) {
  return SplitWorkspace(operand_of(problem, B)).minmax;
}

size_t b_split_scratch_bytes(const Problem& problem) {
  return SplitWorkspace(operand_of(problem, B)).minmax_bytes;
}

SplitOperand bind_b_split(const Problem& problem, void* b_split) {
  const SplitOperand b = operand_of(problem, B);
  return SplitWorkspace(b).bind(b, b_split);
}

void split_b(const Problem& problem, void* b_split, void* scratch, const Device& device) {
  SplitOperand b = bind_b_split(problem, b_split);
  b.minmax = scratch;
  split::launch_split(b, device);
}

}  // namespace smem::gemm::fp16x3
