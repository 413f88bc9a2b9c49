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

/// gemm's result, and the preactivation (the activation's argument) in the dtype of `a`.
std::tuple<Tensor, Tensor> gemm_with_preactivation(const Tensor& a, const Tensor& b,
                                                   const OptionalTensor& bias,
                                                   const OptionalTensor& c, double alpha,
                                                   double beta, int64_t activation,
                                                   int64_t precision, int64_t kernel,
                                                   const OptionalType& out_dtype);

/// The problem that a kernel gets for gemm(a, b), as numbers: M, N, K; the row and column strides
/// of a, b and out, in elements; the addresses of a and b modulo 16; then, for each batch
/// dimension, its size and the strides of a, b and out. The choice of the kernel depends on them.
std::vector<int64_t> gemm_problem(const Tensor& a, const Tensor& b);

/// x (..., K) @ weight^T, with weight (N, K).
Tensor linear(const Tensor& x, const Tensor& weight, const OptionalTensor& bias, int64_t activation,
              int64_t precision, const OptionalType& out_dtype);
void linear_out(const Tensor& x, const Tensor& weight, const OptionalTensor& bias,
                int64_t activation, int64_t precision, const OptionalType& out_dtype,
                const Tensor& out);
std::tuple<Tensor, Tensor> linear_with_preactivation(const Tensor& x, const Tensor& weight,
                                                     const OptionalTensor& bias, int64_t activation,
                                                     int64_t precision,
                                                     const OptionalType& out_dtype);

/// linear with a float32 weight whose split is kept (split_weight, bindings/split.h). The bits are
/// those of linear. Kernels that split no weight do not read it.
Tensor linear_split(const Tensor& x, const Tensor& weight, const Tensor& split,
                    const OptionalTensor& bias, int64_t activation, int64_t precision,
                    int64_t kernel);

}  // namespace smem::bindings
