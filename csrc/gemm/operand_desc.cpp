#include "gemm/operand_desc.h"

#include <string>

#include "gemm/batch.h"

namespace smem::gemm {

bool batch_is_aligned(const Problem& problem, Tensor tensor) {
  const auto& batch = problem.batch;
  const int64_t vec = vec_elements(problem.dtype);
  for (int d = 0; d < batch.rank; ++d) {
    if (batch.stride[tensor][d] % vec != 0 || batch.stride[tensor][d] < 0) return false;
  }
  return true;
}

OperandDesc describe_operand(const Problem& problem, Tensor tensor, bool may_be_mn_major,
                             int64_t longest_stride, bool may_be_unaligned) {
  const bool is_a = tensor == A;
  const Operand& operand = is_a ? problem.a : problem.b;
  const void* const data = operand.data;
  const int64_t mn_size = is_a ? problem.M : problem.N;
  const int64_t mn_stride = is_a ? operand.row_stride : operand.col_stride;
  const int64_t k_stride = is_a ? operand.col_stride : operand.row_stride;
  const int64_t K = problem.K, vec = vec_elements(problem.dtype);
  const bool k_major = k_stride == 1 || K == 1, mn_major = mn_stride == 1 || mn_size == 1;
  const bool aligned = may_be_unaligned || (is_aligned(data) && batch_is_aligned(problem, tensor));
  const auto fits = [&](int64_t outer_size, int64_t outer_stride) {
    return outer_size == 1 || ((may_be_unaligned || outer_stride % vec == 0) && outer_stride > 0 &&
                               outer_stride <= longest_stride);
  };
  OperandDesc desc{};
  desc.batched = inner_batch_stride(problem, tensor) != 0;
  desc.batch_count = desc.batched ? inner_batch_count(problem) : 1;
  // Rows of one element along K would take a vector each.
  const bool is_column = may_be_unaligned && K == 1 && mn_stride == 1;
  const bool k_in_place = aligned && k_major && !is_column && fits(mn_size, mn_stride);
  const bool mn_in_place = may_be_mn_major && aligned && mn_major && fits(K, k_stride);
  desc.packed = !k_in_place && !mn_in_place;
  const bool packs_along_k = k_major || !mn_major || problem.dtype == DType::f32;
  desc.major = k_in_place || (desc.packed && packs_along_k) ? Major::K : Major::MN;
  desc.inner_size = desc.major == Major::K ? K : mn_size;
  desc.outer_size = desc.major == Major::K ? mn_size : K;
  if (desc.packed) {
    // TMA takes twice as long for rows that begin within a cache line, so long rows are padded. So
    // are short ones that many tiles read, mostly at the same time: all of them would ask L2 for
    // the same lines. 341,176 x 88 x 8 takes 75 us with eight columns of B in a line and 45 with
    // one.
    const int64_t line = line_elements(problem.dtype), MANY_ROWS = 1024;
    const bool is_shared = (is_a ? problem.N : problem.M) >= MANY_ROWS;
    const bool is_padded = desc.inner_size >= 8 * line || (desc.inner_size < line && is_shared);
    desc.outer_stride = round_up(desc.inner_size, is_padded ? line : vec);
    desc.batch_stride = round_up(desc.outer_size * desc.outer_stride, 128);
  } else {
    // A single row has no stride of its own, but the tensor map needs a valid one.
    desc.outer_stride = desc.outer_size == 1     ? round_up(desc.inner_size, vec)
                        : desc.major == Major::K ? mn_stride
                                                 : k_stride;
    desc.batch_stride = desc.batched ? inner_batch_stride(problem, tensor) : vec;
  }
  return desc;
}

bool has_whole_rows(const Problem& problem) {
  const int64_t vec = vec_elements(problem.out_dtype);
  const Operand& out = problem.out;
  return out.col_stride == 1 && is_aligned(out.data) && problem.N % vec == 0 &&
         (problem.M == 1 || out.row_stride % vec == 0) && batch_is_aligned(problem, OUT);
}

std::string packed_text(bool packs_a, bool packs_b) {
  if (!packs_a && !packs_b) return "";
  return std::string(packs_a && packs_b ? ", a and b" : packs_a ? ", a" : ", b") + " packed first";
}

}  // namespace smem::gemm
