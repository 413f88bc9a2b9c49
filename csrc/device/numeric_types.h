// The element types of the kernels, their accumulator types, and conversions between the two.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "device/dtype.h"
#include "device/platform.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#else
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

#include "cpu_emulator/counted.h"
#include "cpu_emulator/device/half2.h"
#endif

namespace smem::inline SMEM_BUILD {

#ifdef __CUDACC__
using half = __half;
using bfloat16 = __nv_bfloat16;
#else
// These torch headers define number formats only; no file below bindings/ uses torch's tensors.
using half = torch::headeronly::Half;
using bfloat16 = torch::headeronly::BFloat16;
#endif

// So that an unqualified `fma(a, b, c)` selects the overload for its argument types.
using std::erf;
using std::exp;
using std::fma;
using std::tanh;

#ifdef __CUDACC__
template <typename T>
using Real = T;

template <typename T>
__device__ __forceinline__ T number_of(T value) {
  return value;
}
#else
/// float or double whose arithmetic the emulator counts.
template <typename T>
using Real = cpu_emulator::Counted<T>;
using cpu_emulator::number_of;
#endif

/// The accumulator type: float for float, half and bfloat16; double for double; int64_t for
/// integers and bool.
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

/// PTX mul.rn: a * b, rounded. The compiler must not contract it and a following addition to an
/// fma.
template <typename Acc>
__device__ __forceinline__ Acc rounded_product(Acc a, Acc b) {
#ifdef __CUDA_ARCH__
  if constexpr (std::is_same_v<Acc, double>) return __dmul_rn(a, b);
  if constexpr (std::is_same_v<Acc, float>) return __fmul_rn(a, b);
#endif
  return a * b;
}

/// PTX ex2.approx.ftz and rcp.approx.ftz: exp(x) and 1 / x for results that are then rounded to two
/// bytes. They take one or two instructions; the relative error is a few 2^-23 (for exp, |x|
/// 2^-23), and subnormal numbers become zero.
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

/// Rounds to nearest, ties to even. Integers wrap around, as torch's do.
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

/// A type as a value that a generic lambda can receive: `decltype(tag)::type`.
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

}  // namespace smem::inline SMEM_BUILD
