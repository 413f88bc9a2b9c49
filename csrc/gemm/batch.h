// Batches of several dimensions, for kernels that loop over one.
#pragma once

#include <array>
#include <utility>

#include "gemm/gemm.h"

namespace smem::gemm {

/// The size of the innermost batch dimension, which one launch computes; 1 without a batch.
inline int64_t inner_batch_count(const Problem& problem) {
  const auto& batch = problem.batch;
  return batch.rank > 0 ? batch.size[batch.rank - 1] : 1;
}
inline int64_t inner_batch_stride(const Problem& problem, Tensor tensor) {
  const auto& batch = problem.batch;
  return batch.rank > 0 ? batch.stride[tensor][batch.rank - 1] : 0;
}

/// The problem out^T = B^T A^T. The bias is left as it is: it still belongs to the columns that out
/// had before.
inline Problem transposed(Problem problem) {
  const auto swap_strides = [](const Operand& x) {
    return Operand{x.data, x.col_stride, x.row_stride};
  };
  std::swap(problem.M, problem.N);
  const Operand a = problem.a;
  problem.a = swap_strides(problem.b);
  problem.b = swap_strides(a);
  problem.c = swap_strides(problem.c);
  problem.out = swap_strides(problem.out);
  for (int d = 0; d < problem.batch.rank; ++d) {
    std::swap(problem.batch.stride[A][d], problem.batch.stride[B][d]);
  }
  return problem;
}

/// Calls launch(problem) for each iteration of the outer batch dimensions, with a problem that has
/// the innermost dimension only. The launches follow each other in the stream, so that they may
/// share one workspace.
template <typename Launch>
void for_each_launch(const Problem& problem, const Launch& launch) {
  const OffsetCalculator<TENSORS>& batch = problem.batch;
  if (batch.rank <= 1) return launch(problem);
  Problem inner = problem;
  inner.batch.rank = 1;
  inner.batch.size[0] = inner_batch_count(problem);
  for (const Tensor tensor : {A, B, C, OUT}) {
    inner.batch.stride[tensor][0] = inner_batch_stride(problem, tensor);
  }
  OffsetCalculator<TENSORS> outer = batch;
  outer.rank = batch.rank - 1;
  std::array<int64_t, MAX_RANK> index{};
  for (int64_t i = 0; i < outer.count(); ++i) {
    const auto advanced = [&](const void* data, Tensor tensor, DType dtype) {
      int64_t offset = 0;
      for (int d = 0; d < outer.rank; ++d) offset += index[d] * outer.stride[tensor][d];
      const auto* bytes = static_cast<const unsigned char*>(data);
      return data ? bytes + offset * static_cast<int64_t>(size_of(dtype)) : nullptr;
    };
    inner.a.data = advanced(problem.a.data, A, problem.dtype);
    inner.b.data = advanced(problem.b.data, B, problem.dtype);
    inner.c.data = advanced(problem.c.data, C, problem.c_dtype);
    inner.out.data = advanced(problem.out.data, OUT, problem.out_dtype);
    inner.pre = const_cast<unsigned char*>(advanced(problem.pre, OUT, problem.dtype));
    launch(inner);
    for (int d = outer.rank - 1; d >= 0 && ++index[d] == outer.size[d]; --d) index[d] = 0;
  }
}

}  // namespace smem::gemm
