// torch.ops.smem._split and _split_weight, on CUDA tensors and, by cpu_emulator, on CPU tensors.
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

/// The split of a linear's weight (N, K), which may be kept: b_split_bytes of
/// gemm/fp16x3/split_problem.h, whose layout they have.
Tensor split_weight(const Tensor& weight);

/// The bytes of the split of a weight of that shape.
int64_t weight_split_bytes(int64_t N, int64_t K);

/// Throws unless `split` can be what split_weight made of the weight.
void check_weight_split(const char* op, const Tensor& split, const Tensor& weight);

}  // namespace smem::bindings
