// torch.ops.smem._activation_backward, on CUDA tensors and, by cpu_emulator, on CPU tensors.
#pragma once

#include <tuple>

#include "bindings/tensors.h"

namespace smem::bindings {

/// The gradient of what goes into an activation, and of the bias that was added last to it: the sum
/// of the former over all dimensions but the last. `grad` and `z` are of one shape and dtype.
std::tuple<Tensor, Tensor> activation_backward(const Tensor& grad, const Tensor& z,
                                               int64_t activation);

}  // namespace smem::bindings
