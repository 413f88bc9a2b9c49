// torch.ops.smem._activation_backward, on CUDA tensors and, by the CPU emulator, on CPU tensors.
#pragma once

#include <tuple>

#include "bindings/tensors.h"

namespace smem::bindings {

/// Returns the gradient of an activation's input and the gradient of the bias that was added to it
/// last: the sum of the former over all dimensions but the last. `grad` and `z` have the same shape
/// and dtype.
std::tuple<Tensor, Tensor> activation_backward(const Tensor& grad, const Tensor& z,
                                               int64_t activation);

}  // namespace smem::bindings
