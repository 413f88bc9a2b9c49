// The ladder's Epilogue, made from a problem and moved through a batch.
#pragma once

#include "gemm/epilogue.h"

namespace smem::gemm::sm90 {
inline namespace SMEM_BUILD {

/// Of the first member of the batch.
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

/// Steps along the one loop over the batch that a launch has.
struct MemberStrides {
  int64_t out, c;
};
inline MemberStrides member_strides(const Problem& problem) {
  const auto& batch = problem.batch;
  return batch.rank == 0 ? MemberStrides{0, 0}
                         : MemberStrides{batch.stride[OUT][0], batch.stride[C][0]};
}

template <typename T>
__device__ __forceinline__ Epilogue<T> epilogue_of_member(Epilogue<T> epilogue,
                                                          const MemberStrides& strides,
                                                          int64_t member) {
  constexpr int64_t WIDTH = sizeof(float) / sizeof(T);  // of an element that is not rounded
  epilogue.out.data += member * strides.out * (epilogue.out_unrounded ? WIDTH : 1);
  if (epilogue.pre.data) epilogue.pre.data += member * strides.out;
  if (epilogue.c.data) epilogue.c.data += member * strides.c * (epilogue.c_unrounded ? WIDTH : 1);
  return epilogue;
}

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::sm90
