// The epilogue (epilogue.h): made from a problem, and moved to a matrix of the batch.
#pragma once

#include "gemm/epilogue.h"

namespace smem::gemm::inline SMEM_BUILD {

/// For the first matrix of the batch.
template <typename T>
Epilogue<T> epilogue_of(const Problem& problem) {
  const int64_t M = problem.M, N = problem.N;
  const Operand &out = problem.out, &c = problem.c;
  return {{static_cast<T*>(const_cast<void*>(out.data)), M, N, out.row_stride, out.col_stride},
          {static_cast<T*>(problem.pre), M, N, out.row_stride, out.col_stride},
          {static_cast<const T*>(c.data), M, N, c.row_stride, c.col_stride},
          static_cast<const T*>(problem.bias),
          problem.bias_stride,
          static_cast<float>(problem.alpha),
          static_cast<float>(problem.beta),
          problem.activation,
          problem.out_dtype == DType::f32,
          problem.c_dtype == DType::f32};
}

/// From matrix to matrix, in elements, along the one batch dimension of a launch.
struct BatchStrides {
  int64_t out, c;
};
inline BatchStrides batch_strides(const Problem& problem) {
  const auto& batch = problem.batch;
  return batch.rank == 0 ? BatchStrides{0, 0}
                         : BatchStrides{batch.stride[OUT][0], batch.stride[C][0]};
}

template <typename T>
__device__ __forceinline__ Epilogue<T> epilogue_at_batch(Epilogue<T> epilogue,
                                                         const BatchStrides& strides,
                                                         int64_t batch) {
  constexpr int64_t WIDTH = sizeof(float) / sizeof(T);  // of a float32 element, in elements of T
  epilogue.out.data += batch * strides.out * (epilogue.out_unrounded ? WIDTH : 1);
  if (epilogue.pre.data) epilogue.pre.data += batch * strides.out;
  if (epilogue.c.data) epilogue.c.data += batch * strides.c * (epilogue.c_unrounded ? WIDTH : 1);
  return epilogue;
}

}  // namespace smem::gemm::inline SMEM_BUILD
