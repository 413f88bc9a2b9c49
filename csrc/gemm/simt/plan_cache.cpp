#include "gemm/simt/heuristics.h"
#include "gemm/plan_cache.h"

namespace smem::gemm::simt {

const Plan& remembered_plan(const Problem& problem, const Device& device) {
  const Problem& p = problem;
  Key<14 + 3 * MAX_RANK> key;
  for (const int64_t number :
       {p.M, p.N, p.K, int64_t{p.variant}, static_cast<int64_t>(p.dtype),
        int64_t{device.sm_count}, static_cast<int64_t>(device.shared_bytes)}) {
    key.push(number);
  }
  for (const Operand* operand : {&p.a, &p.b}) {
    key.push(operand->row_stride);
    key.push(operand->col_stride);
    key.push_alignment(operand->data);
  }
  key.push(p.c.data != nullptr);
  for (int d = 0; d < p.batch.rank; ++d) {
    key.push(p.batch.size[d]);
    for (const Tensor tensor : {Tensor::A, Tensor::B}) key.push(p.batch.stride[tensor][d]);
  }
  return remembered(key, [&] { return plan(problem, device); });
}

}  // namespace smem::gemm::simt
