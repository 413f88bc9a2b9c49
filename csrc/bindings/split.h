// torch.ops.smem._split, on CUDA tensors and, by host_run, on CPU tensors.
#pragma once

#include <tuple>

#include "bindings/tensors.h"

namespace smem::bindings {

/// hi, lo, exponent and exact of gemm/split/split.h for the lines of x: (..., lines, K), or
/// (..., K, lines) where the lines are last. hi and lo are (..., lines, K filled up to their
/// pitch), exponent and exact (..., lines).
std::tuple<Tensor, Tensor, Tensor, Tensor> split(const Tensor& x, bool lines_last);

}  // namespace smem::bindings
