// torch.ops.smem.sum, mean, amax and amin, on CUDA tensors and, by the CPU emulator, on CPU
// tensors.
#pragma once

#include <vector>

#include "bindings/tensors.h"

namespace smem::bindings {

using OptionalDims = std::optional<std::vector<int64_t>>;

Tensor sum(const Tensor& x, const OptionalDims& dim, bool keepdim, const OptionalType& dtype,
           int64_t kernel);
void sum_out(const Tensor& x, const OptionalDims& dim, bool keepdim, const OptionalType& dtype,
             int64_t kernel, const Tensor& out);
Tensor mean(const Tensor& x, const OptionalDims& dim, bool keepdim, const OptionalType& dtype,
            int64_t kernel);
void mean_out(const Tensor& x, const OptionalDims& dim, bool keepdim, const OptionalType& dtype,
              int64_t kernel, const Tensor& out);
Tensor amax(const Tensor& x, const OptionalDims& dim, bool keepdim, int64_t kernel);
void amax_out(const Tensor& x, const OptionalDims& dim, bool keepdim, int64_t kernel,
              const Tensor& out);
Tensor amin(const Tensor& x, const OptionalDims& dim, bool keepdim, int64_t kernel);
void amin_out(const Tensor& x, const OptionalDims& dim, bool keepdim, int64_t kernel,
              const Tensor& out);

}  // namespace smem::bindings
