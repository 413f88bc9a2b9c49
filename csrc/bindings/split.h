// torch.ops.smem._split, on CUDA tensors and, by cpu_emulator, on CPU tensors.
#pragma once

#include <tuple>

#include "bindings/tensors.h"

namespace smem::bindings {

/// halves, exponent, mark, position and rest of gemm/fp16x3/split.h for the lines of x: (..., lines,
/// K), or (..., K, lines) where the lines are last. halves is (..., lines, pieces, hi and lo,
/// elements of a piece), the others (..., lines). With a part_length above 0 lines are cut into
/// parts, and all results are (..., parts, lines ...).
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> split(const Tensor& x, bool lines_last,
                                                         int64_t part_length);

}  // namespace smem::bindings
