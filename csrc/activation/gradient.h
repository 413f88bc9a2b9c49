// The activations' derivatives, by the formulas of torch.nn.functional's own gradients.
#pragma once

#include "device/number.h"
#include "gemm/gemm.h"

namespace smem::activation {
inline namespace SMEM_BUILD {

/// dy times the derivative at z.
template <typename Acc>
__device__ __forceinline__ Acc gradient(gemm::Activation activation, Acc dy, Acc z) {
  switch (activation) {
    case gemm::Activation::relu:
      return z <= Acc(0) ? Acc(0) : dy;  // also where z is NaN
    case gemm::Activation::gelu: {
      const Acc cdf = Acc(0.5) * (Acc(1) + erf(z * Acc(0.70710678118654752440)));
      const Acc pdf = exp(Acc(-0.5) * z * z) * Acc(0.39894228040143267794);
      return dy * (cdf + z * pdf);
    }
    case gemm::Activation::gelu_tanh: {
      constexpr Acc SQRT_2_OVER_PI = Acc(0.79788456080286535588);
      const Acc t = tanh(SQRT_2_OVER_PI * (z + Acc(0.044715) * z * z * z));
      const Acc slope = SQRT_2_OVER_PI * (Acc(1) + Acc(3 * 0.044715) * z * z);
      return dy * (Acc(0.5) * (Acc(1) + t) + Acc(0.5) * z * (Acc(1) - t * t) * slope);
    }
    case gemm::Activation::silu: {
      const Acc s = Acc(1) / (Acc(1) + exp(-z));
      return dy * s * (Acc(1) + z * (Acc(1) - s));
    }
    default:
      return dy;
  }
}

}  // namespace SMEM_BUILD
}  // namespace smem::activation
