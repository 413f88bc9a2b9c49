// Activation functions of z = alpha A B + beta C + bias, by the formulas of torch.nn.functional.
#pragma once

#include <type_traits>

#include "device/numeric_types.h"
#include "device/vector.h"
#include "gemm/gemm.h"

namespace smem::gemm::inline SMEM_BUILD {

/// activation(z), to the precision of Acc.
template <typename Acc>
__device__ __forceinline__ Acc activate(Activation activation, Acc z) {
  switch (activation) {
    case Activation::relu:
      return z <= Acc(0) ? Acc(0) : z;  // NaN stays NaN
    case Activation::gelu:
      return Acc(0.5) * z * (Acc(1) + erf(z * Acc(0.70710678118654752440)));
    case Activation::gelu_tanh: {
      constexpr Acc SQRT_2_OVER_PI = Acc(0.79788456080286535588);
      const Acc inner = SQRT_2_OVER_PI * (z + Acc(0.044715) * z * z * z);
      return Acc(0.5) * z * (Acc(1) + tanh(inner));
    }
    case Activation::silu:
      return z / (Acc(1) + exp(-z));
    default:
      return z;
  }
}

/// The upper tail of the standard normal distribution beyond |z|, with a relative error of 1e-6. It
/// is bell = exp(-z^2 / 2) times a polynomial in t = 1 / (1 + 0.36 |z|), the form of Abramowitz and
/// Stegun 7.1.26. The coefficients come from a least-squares fit of the relative error over |z| up
/// to 14, reweighted towards its maxima.
template <typename Acc>
__device__ __forceinline__ Acc normal_tail(Acc z, Acc bell) {
  const Acc t = approximate_reciprocal(fma(Acc(0.36), z <= Acc(0) ? -z : z, Acc(1)));
  Acc polynomial = Acc(0.04705531);
  for (const double coefficient :
       {-0.17976144, 0.18094972, 0.02655221, 0.13971823, 0.14177264, 0.14371303}) {
    polynomial = fma(polynomial, t, Acc(coefficient));
  }
  return rounded_product(t * polynomial, bell);
}

/// activation(z) for a result that is rounded to two bytes: about 12 GPU instructions instead of 20
/// to 40, with errors below 2^-17. gelu_tanh uses the logistic function, which avoids the
/// cancellation in 1 + tanh.
template <typename Acc>
__device__ __forceinline__ Acc activate_approximate(Activation activation, Acc z) {
  const auto logistic = [](Acc x) { return approximate_reciprocal(Acc(1) + approximate_exp(-x)); };
  switch (activation) {
    case Activation::gelu: {
      const Acc tail = normal_tail(z, approximate_exp(Acc(-0.5) * z * z));
      return z * (z <= Acc(0) ? tail : Acc(1) - tail);
    }
    case Activation::gelu_tanh: {
      constexpr Acc TWICE_SQRT_2_OVER_PI = Acc(1.59576912160573071176);
      return z * logistic(TWICE_SQRT_2_OVER_PI * fma(Acc(0.044715) * z * z, z, z));
    }
    case Activation::silu:
      return z * logistic(z);
    default:
      return activate(activation, z);
  }
}

/// The activations of W values. The activation is chosen once for all of them, so that their
/// evaluations overlap.
template <bool APPROXIMATE, typename Acc, int W>
__device__ __forceinline__ Vector<Acc, W> activate_all(Activation activation, Vector<Acc, W> z) {
  const auto apply = [&](auto constant) {
#pragma unroll
    for (Acc& value : z.lane) {
      if constexpr (APPROXIMATE) {
        value = activate_approximate(decltype(constant)::value, value);
      } else {
        value = activate(decltype(constant)::value, value);
      }
    }
  };
  switch (activation) {
    case Activation::relu:
      apply(std::integral_constant<Activation, Activation::relu>());
      break;
    case Activation::gelu:
      apply(std::integral_constant<Activation, Activation::gelu>());
      break;
    case Activation::gelu_tanh:
      apply(std::integral_constant<Activation, Activation::gelu_tanh>());
      break;
    case Activation::silu:
      apply(std::integral_constant<Activation, Activation::silu>());
      break;
    default:
      break;
  }
  return z;
}

/// The same, not inlined.
template <bool APPROXIMATE, typename Acc, int W>
__device__ __noinline__ Vector<Acc, W> call_activate(Activation activation, Vector<Acc, W> z) {
  return activate_all<APPROXIMATE>(activation, z);
}

/// The type of an accumulated result that is not rounded to a two-byte T.
template <typename T>
using Unrounded = std::conditional_t<sizeof(T) == 2, float, T>;

}  // namespace smem::gemm::inline SMEM_BUILD
