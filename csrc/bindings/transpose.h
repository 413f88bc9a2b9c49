// torch.ops.smem.transpose, on CUDA tensors and, by host_run, on CPU tensors.
#pragma once

#include "bindings/tensors.h"

namespace smem::bindings {

Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1, int64_t kernel);
void transpose_out(const Tensor& x, int64_t dim0, int64_t dim1, int64_t kernel, const Tensor& out);

}  // namespace smem::bindings
