// Epilogues of little code, which a kernel may repeat for each of a thread's sums; others go
// through a loop.
#pragma once

#include "gemm/epilogue.h"

namespace smem::gemm::fp16x3 {
inline namespace SMEM_BUILD {

__device__ __forceinline__ bool is_plain(const Epilogue<float>& epilogue) {
  return epilogue.alpha == 1 && !epilogue.c.data && !epilogue.pre.data &&
         (epilogue.activation == Activation::none || epilogue.activation == Activation::relu);
}

/// The element of out, of a column that it has.
__device__ __forceinline__ float plain_element(const Epilogue<float>& epilogue, int64_t col,
                                               float sum) {
  if (epilogue.bias) sum += epilogue.bias[col * epilogue.bias_stride];
  return epilogue.activation == Activation::relu ? activate(Activation::relu, sum) : sum;
}

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::fp16x3
