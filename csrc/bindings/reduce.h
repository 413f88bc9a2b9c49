// torch.ops.smem.sum, mean, amax and amin, on CUDA tensors and, by the CPU emulator, on CPU
// tensors.
#pragma once

#include <vector>

#include "bindings/tensors.h"
#include "reduce/reduce.h"

namespace smem::bindings {

using OptionalDims = std::optional<std::vector<int64_t>>;

/// One of the ops: its name for error messages, and what it computes.
struct Reduction {
  const char* name;
  reduce::Operator op;
  bool divides;
};

inline constexpr Reduction SUM{.name = "sum", .op = reduce::Operator::sum, .divides = false};
inline constexpr Reduction MEAN{.name = "mean", .op = reduce::Operator::sum, .divides = true};
inline constexpr Reduction AMAX{.name = "amax", .op = reduce::Operator::max, .divides = false};
inline constexpr Reduction AMIN{.name = "amin", .op = reduce::Operator::min, .divides = false};

Tensor reduce(const Reduction& reduction, const Tensor& x, const OptionalDims& dim, bool keepdim,
              const OptionalType& dtype, int64_t kernel);
void reduce_out(const Reduction& reduction, const Tensor& x, const OptionalDims& dim, bool keepdim,
                const OptionalType& dtype, int64_t kernel, const Tensor& out);

/// The op `REDUCTION` with a dtype: sum and mean.
template <const Reduction* REDUCTION>
Tensor sum_op(const Tensor& x, const OptionalDims& dim, bool keepdim, const OptionalType& dtype,
              int64_t kernel) {
  return reduce(*REDUCTION, x, dim, keepdim, dtype, kernel);
}
template <const Reduction* REDUCTION>
void sum_op_out(const Tensor& x, const OptionalDims& dim, bool keepdim, const OptionalType& dtype,
                int64_t kernel, const Tensor& out) {
  reduce_out(*REDUCTION, x, dim, keepdim, dtype, kernel, out);
}

/// The op `REDUCTION` without a dtype: amax and amin.
template <const Reduction* REDUCTION>
Tensor extremum_op(const Tensor& x, const OptionalDims& dim, bool keepdim, int64_t kernel) {
  return reduce(*REDUCTION, x, dim, keepdim, {}, kernel);
}
template <const Reduction* REDUCTION>
void extremum_op_out(const Tensor& x, const OptionalDims& dim, bool keepdim, int64_t kernel,
                     const Tensor& out) {
  reduce_out(*REDUCTION, x, dim, keepdim, {}, kernel, out);
}

}  // namespace smem::bindings
