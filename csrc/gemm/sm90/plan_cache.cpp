#include "gemm/sm90/heuristics.h"
#include "gemm/plan_cache.h"

namespace smem::gemm::sm90 {

const Plan& remembered_plan(const Problem& problem, const Device& device) {
  const Problem& p = problem;
  PlanKey<18 + 4 * MAX_RANK> key;
  for (const int64_t number : {p.M, p.N, p.K, int64_t{p.variant}, int64_t{device.sm_count},
                               int64_t{device.capability}}) {
    key.push(number);
  }
  for (const Operand* operand : {&p.a, &p.b, &p.out}) {
    key.push(operand->row_stride);
    key.push(operand->col_stride);
    key.push_alignment(operand->data);
  }
  key.push(static_cast<int64_t>(size_of(p.dtype)));
  key.push(static_cast<int64_t>(p.out_dtype == p.dtype) |
           static_cast<int64_t>(p.c.data != nullptr) << 1 |
           static_cast<int64_t>(p.pre != nullptr) << 2 | static_cast<int64_t>(p.activation) << 3);
  key.push_alignment(p.pre);
  for (int d = 0; d < p.batch.rank; ++d) {
    key.push(p.batch.size[d]);
    for (const Tensor tensor : {A, B, OUT}) key.push(p.batch.stride[tensor][d]);
  }
  return cached(key, [&] { return plan(problem, device); });
}

}  // namespace smem::gemm::sm90
