// The derivatives of the activations, by the formulas of torch.nn.functional's own gradients.
#pragma once

#include "gemm/activation.h"

namespace smem::activation::inline SMEM_BUILD {

/// dy times the derivative at z. APPROXIMATE: the result is rounded to two bytes, so it uses the
/// same approximations as gemm::activate_approximate.
template <bool APPROXIMATE, typename Acc>
__device__ __forceinline__ Acc gradient(gemm::Activation activation, Acc dy, Acc z) {
  const auto power = [](Acc x) {
    if constexpr (APPROXIMATE) return approximate_exp(x);
    return exp(x);
  };
  const auto reciprocal = [](Acc x) {
    if constexpr (APPROXIMATE) return approximate_reciprocal(x);
    return Acc(1) / x;
  };
  switch (activation) {
    case gemm::Activation::relu:
      return z <= Acc(0) ? Acc(0) : dy;  // dy if z is NaN, too
    case gemm::Activation::gelu: {
      const Acc bell = power(Acc(-0.5) * z * z), pdf = bell * Acc(0.39894228040143267794);
      if constexpr (APPROXIMATE) {
        const Acc tail = gemm::normal_tail(z, bell);
        return dy * fma(z, pdf, z <= Acc(0) ? tail : Acc(1) - tail);
      }
      const Acc cdf = Acc(0.5) * (Acc(1) + erf(z * Acc(0.70710678118654752440)));
      return dy * (cdf + z * pdf);
    }
    case gemm::Activation::gelu_tanh: {
      // 0.5 * (1 + tanh(u)) is the logistic function of 2u, whose derivative needs no difference.
      constexpr Acc SQRT_2_OVER_PI = Acc(0.79788456080286535588);
      const Acc u = SQRT_2_OVER_PI * (z + Acc(0.044715) * z * z * z);
      const Acc slope = SQRT_2_OVER_PI * (Acc(1) + Acc(3 * 0.044715) * z * z);
      const bool is_negative = u <= Acc(0);
      const Acc e = power(Acc(2) * (is_negative ? u : -u)), larger = reciprocal(Acc(1) + e);
      const Acc s = is_negative ? e * larger : larger;
      return dy * (s + Acc(2) * z * (e * larger * larger) * slope);
    }
    case gemm::Activation::silu: {
      const Acc s = reciprocal(Acc(1) + power(-z));
      return dy * s * (Acc(1) + z * (Acc(1) - s));
    }
    default:
      return dy;
  }
}

}  // namespace smem::activation::inline SMEM_BUILD
