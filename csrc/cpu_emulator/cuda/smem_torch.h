// Stands for the headers of PyTorch, ATen and c10 in a source of a PyTorch extension: the names
// that kernels have from them. Tensors and checks belong to the host.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "math_constants.h"

#define C10_DEVICE __device__
#define C10_HOST __host__
#define C10_HOST_DEVICE __host__ __device__
#define C10_LAUNCH_BOUNDS_0
#define C10_LAUNCH_BOUNDS_1(...)
#define C10_LAUNCH_BOUNDS_2(...)
#define C10_RESTRICT __restrict
#define C10_WARP_SIZE 32
#define C10_ALWAYS_INLINE inline __attribute__((always_inline))
#define CUDA_KERNEL_ASSERT(condition) assert(condition)
#define CUDA_KERNEL_LOOP_TYPE(i, n, type)                                         \
  int64_t smem_##i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; \
  for (type i = smem_##i; smem_##i < (n);                                         \
       smem_##i += static_cast<int64_t>(blockDim.x) * gridDim.x, i = smem_##i)
#define CUDA_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)

namespace c10 {
using Half = __half;
using BFloat16 = __nv_bfloat16;
}  // namespace c10

namespace at {
using c10::BFloat16;
using c10::Half;

/// The type that sums of T have: float for half precision.
template <typename T>
struct OpMathType {
  using type = T;
};
template <>
struct OpMathType<Half> {
  using type = float;
};
template <>
struct OpMathType<BFloat16> {
  using type = float;
};
template <typename T>
using opmath_type = typename OpMathType<T>::type;
template <typename T, bool = true>
using acc_type = opmath_type<T>;
}  // namespace at
