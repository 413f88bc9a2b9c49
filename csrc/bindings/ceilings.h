// torch.ops.smem._ffma, CUDA only: for `bench`.
#pragma once

#include "bindings/tensors.h"

namespace smem::bindings {

void ffma(const Tensor& out, int64_t rounds);

}  // namespace smem::bindings
