// Epilogues of so little code that a kernel repeats it for each of a thread's accumulators. Others
// go through a loop.
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

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
