// Batches of several loops, for kernels that take one.
#pragma once

#include <array>
#include <utility>

#include "gemm/gemm.h"

namespace smem::gemm {

/// The members of the batch that one launch takes: its innermost loop.
inline int64_t members_of(const Problem& problem) {
  const auto& batch = problem.batch;
  return batch.rank == 0 ? 1 : batch.size[batch.rank - 1];
}
inline int64_t member_stride(const Problem& problem, Tensor tensor) {
  const auto& batch = problem.batch;
  return batch.rank == 0 ? 0 : batch.stride[tensor][batch.rank - 1];
}

/// out^T = B^T A^T, but for the bias, which still belongs to the columns that out had.
inline Problem transposed(Problem problem) {
  const auto turned = [](const Operand& x) { return Operand{x.data, x.col_stride, x.row_stride}; };
  std::swap(problem.M, problem.N);
  const Operand a = problem.a;
  problem.a = turned(problem.b);
  problem.b = turned(a);
  problem.c = turned(problem.c);
  problem.out = turned(problem.out);
  for (int d = 0; d < problem.batch.rank; ++d) {
    std::swap(problem.batch.stride[A][d], problem.batch.stride[B][d]);
  }
  return problem;
}

/// Calls launch(problem of the innermost loop) for each iteration of the outer ones. The launches
/// follow each other in the stream and may use one workspace.
template <typename Launch>
void for_each_launch(const Problem& problem, const Launch& launch) {
  const OffsetCalculator<TENSORS>& batch = problem.batch;
  if (batch.rank <= 1) return launch(problem);
  Problem members = problem;
  members.batch.rank = 1;
  members.batch.size[0] = members_of(problem);
  for (const Tensor tensor : {A, B, C, OUT}) {
    members.batch.stride[tensor][0] = member_stride(problem, tensor);
  }
  OffsetCalculator<TENSORS> outer = batch;
  outer.rank = batch.rank - 1;
  std::array<int64_t, MAX_RANK> at{};
  for (int64_t i = 0; i < outer.count(); ++i) {
    const auto moved = [&](const void* data, Tensor tensor, DType dtype) {
      int64_t offset = 0;
      for (int d = 0; d < outer.rank; ++d) offset += at[d] * outer.stride[tensor][d];
      const auto* bytes = static_cast<const unsigned char*>(data);
      return data ? bytes + offset * static_cast<int64_t>(size_of(dtype)) : nullptr;
    };
    members.a.data = moved(problem.a.data, A, problem.dtype);
    members.b.data = moved(problem.b.data, B, problem.dtype);
    members.c.data = moved(problem.c.data, C, problem.c_dtype);
    members.out.data = moved(problem.out.data, OUT, problem.out_dtype);
    members.pre = const_cast<unsigned char*>(moved(problem.pre, OUT, problem.dtype));
    launch(members);
    for (int d = outer.rank - 1; d >= 0 && ++at[d] == outer.size[d]; --d) at[d] = 0;
  }
}

}  // namespace smem::gemm
