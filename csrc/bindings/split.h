// torch.ops.smem._split, on CUDA tensors and, by cpu_emulator, on CPU tensors.
#pragma once

#include <tuple>

#include "bindings/tensors.h"

namespace smem::bindings {

/// hi_lo, exponent, status, outlier_k and outlier of gemm/fp16x3/split.h for the rows of x, which
/// is
/// (..., rows, K), or (..., K, rows) if `lines_last`. hi_lo is (..., rows, k blocks, hi and lo,
/// elements of a k block), the others are (..., rows). With a part_length above 0 K is cut into
/// slices of that length, and all results are (..., slices, rows ...).
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> split(const Tensor& x, bool lines_last,
                                                         int64_t part_length);

}  // namespace smem::bindings
