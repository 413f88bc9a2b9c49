// Epilogues of so little code that a kernel may repeat it for each of a thread's accumulators.
// Others go through a loop.
#pragma once

#include "gemm/epilogue.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {

/// Whether the epilogue only adds a bias, at most, before the activation.
__device__ __forceinline__ bool only_adds_bias(const Epilogue<float>& epilogue) {
  return number_of(epilogue.alpha) == 1 && !epilogue.c.data;
}

/// Whether it also applies nothing but relu, at most.
__device__ __forceinline__ bool is_bias_relu(const Epilogue<float>& epilogue) {
  return only_adds_bias(epilogue) && !epilogue.pre.data &&
         (epilogue.activation == Activation::none || epilogue.activation == Activation::relu);
}

/// Applies such an epilogue to an element of an existing column.
__device__ __forceinline__ float apply_bias_relu(const Epilogue<float>& epilogue, int64_t col,
                                                 float accum) {
  if (epilogue.bias) accum += epilogue.bias[col * epilogue.bias_stride];
  return epilogue.activation == Activation::relu ? activate(Activation::relu, accum) : accum;
}

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
