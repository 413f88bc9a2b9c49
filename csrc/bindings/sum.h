// torch.ops.smem.sum, on CUDA tensors and, by host_run, on CPU tensors.
#pragma once

#include <vector>

#include "bindings/tensors.h"

namespace smem::bindings {

using OptionalDims = std::optional<std::vector<int64_t>>;

Tensor sum(const Tensor& x, const OptionalDims& dim, bool keepdim,
           const std::optional<ScalarType>& dtype, int64_t kernel);
void sum_out(const Tensor& x, const OptionalDims& dim, bool keepdim,
             const std::optional<ScalarType>& dtype, int64_t kernel, const Tensor& out);

}  // namespace smem::bindings
