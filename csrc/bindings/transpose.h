// torch.ops.smem.transpose, on CUDA tensors and, by cpu_emulator, on CPU tensors.
#pragma once

#include <vector>

#include "bindings/tensors.h"

namespace smem::bindings {

Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1, int64_t kernel);
void transpose_out(const Tensor& x, int64_t dim0, int64_t dim1, int64_t kernel, const Tensor& out);

/// The problem that a kernel gets (transpose/transpose.h), as numbers: element bytes, rows,
/// columns; the row and column strides of `in`, then of `out`, in elements; both addresses modulo
/// 32; then the size and both strides of each dimension of the batch.
std::vector<int64_t> transpose_problem(const Tensor& x, int64_t dim0, int64_t dim1,
                                       const Tensor& out);

}  // namespace smem::bindings
