// torch.ops.smem.gemm and linear, on CUDA tensors and, by cpu_emulator, on CPU tensors.
#pragma once

#include <tuple>
#include <vector>

#include "bindings/tensors.h"

namespace smem::bindings {

Tensor gemm(const Tensor& a, const Tensor& b, const OptionalTensor& bias, const OptionalTensor& c,
            double alpha, double beta, int64_t activation, int64_t precision, int64_t kernel,
            const OptionalType& out_dtype);
void gemm_out(const Tensor& a, const Tensor& b, const OptionalTensor& bias, const OptionalTensor& c,
              double alpha, double beta, int64_t activation, int64_t precision, int64_t kernel,
              const OptionalType& out_dtype, const Tensor& out);

/// gemm's result, and what the activation was applied to, in the dtype of `a`.
std::tuple<Tensor, Tensor> gemm_with_preactivation(const Tensor& a, const Tensor& b,
                                                   const OptionalTensor& bias,
                                                   const OptionalTensor& c, double alpha,
                                                   double beta, int64_t activation,
                                                   int64_t precision, int64_t kernel,
                                                   const OptionalType& out_dtype);

/// M, N, K and batch of the problem that gemm(a, b) gives its kernel, whose choice depends on them.
std::vector<int64_t> gemm_problem(const Tensor& a, const Tensor& b);

/// x (..., K) times weight (N, K) transposed.
Tensor linear(const Tensor& x, const Tensor& weight, const OptionalTensor& bias, int64_t activation,
              int64_t precision, const OptionalType& out_dtype);
void linear_out(const Tensor& x, const Tensor& weight, const OptionalTensor& bias,
                int64_t activation, int64_t precision, const OptionalType& out_dtype,
                const Tensor& out);
std::tuple<Tensor, Tensor> linear_with_preactivation(const Tensor& x, const Tensor& weight,
                                                     const OptionalTensor& bias, int64_t activation,
                                                     int64_t precision,
                                                     const OptionalType& out_dtype);

}  // namespace smem::bindings
