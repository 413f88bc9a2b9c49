// The number types of the kernels, and the type in which each is summed.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "device/dtype.h"
#include "device/platform.h"

#ifdef SMEM_TRACED
#include "cpu_emulator/trace/counted.h"
#endif
#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#else
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>
#endif

namespace smem {
inline namespace SMEM_BUILD {

#ifdef __CUDACC__
using half = __half;
using bfloat16 = __nv_bfloat16;
#else
// Number formats only: nothing below bindings/ sees a tensor.
using half = torch::headeronly::Half;
using bfloat16 = torch::headeronly::BFloat16;
#endif

// So that a plain `fma(a, b, c)` takes the overload of its arguments' type.
using std::erf;
using std::exp;
using std::fma;
using std::tanh;

#ifdef SMEM_TRACED
/// float or double whose arithmetic is counted.
template <typename T>
using Real = cpu_emulator::trace::Counted<T>;
using cpu_emulator::trace::number_of;
#else
template <typename T>
using Real = T;

template <typename T>
__device__ __forceinline__ T number_of(T value) {
  return value;
}
#endif

/// float for float, half and bfloat16; double for double; int64_t for integers and bool.
template <typename T>
using Accumulator =
    std::conditional_t<std::is_integral_v<T>, int64_t,
                       std::conditional_t<std::is_same_v<T, double>, Real<double>, Real<float>>>;

template <typename T>
__device__ __forceinline__ Accumulator<T> to_accumulator(T value) {
  if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>) {
#ifdef __CUDACC__
    if constexpr (std::is_same_v<T, half>) {
      return __half2float(value);
    } else {
      return __bfloat162float(value);
    }
#else
    return static_cast<float>(value);
#endif
  } else {
    return static_cast<Accumulator<T>>(value);
  }
}

/// a * b, rounded: no compiler makes one fma of it and an addition that follows.
template <typename Acc>
__device__ __forceinline__ Acc rounded_product(Acc a, Acc b) {
#ifdef __CUDA_ARCH__
  if constexpr (std::is_same_v<Acc, double>) return __dmul_rn(a, b);
  if constexpr (std::is_same_v<Acc, float>) return __fmul_rn(a, b);
#endif
  return a * b;
}

/// exp(x) and 1 / x for results that are rounded to two bytes: on the GPU an instruction or two,
/// with errors of a few 2^-23 (of exp: of |x| 2^-23), and what is subnormal becomes zero.
template <typename Acc>
__device__ __forceinline__ Acc approximate_exp(Acc x) {
#ifdef __CUDA_ARCH__
  constexpr float LOG2_E = 1.44269504088896340736f;
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * LOG2_E));
  return power;
#else
  return exp(x);
#endif
}
template <typename Acc>
__device__ __forceinline__ Acc approximate_reciprocal(Acc x) {
#ifdef __CUDA_ARCH__
  float reciprocal;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(x));
  return reciprocal;
#else
  return Acc(1) / x;
#endif
}

/// Rounds to nearest, ties to even; integers wrap as torch's do.
template <typename T>
__device__ __forceinline__ T from_accumulator(Accumulator<T> value) {
#ifdef __CUDACC__
  if constexpr (std::is_same_v<T, half>) {
    return __float2half_rn(value);
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    return __float2bfloat16_rn(value);
  } else
#endif
  {
    return static_cast<T>(number_of(value));
  }
}

/// The type of a dtype, as a value that a generic lambda can take: `decltype(t)::type`.
template <typename T>
struct TypeTag {
  using type = T;
};

/// Calls `f(TypeTag<T>{})` for a floating-point dtype.
template <typename F>
auto with_float_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64:
      return f(TypeTag<double>{});
    case DType::f16:
      return f(TypeTag<half>{});
    case DType::bf16:
      return f(TypeTag<bfloat16>{});
    default:
      return f(TypeTag<float>{});
  }
}

}  // namespace SMEM_BUILD
}  // namespace smem
