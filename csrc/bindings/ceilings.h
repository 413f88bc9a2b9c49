// torch.ops.smem._ffma, for `bench`. CUDA tensors only.
#pragma once

#include "bindings/tensors.h"

namespace smem::bindings {

/// Executes `rounds` rounds of FFMAs per element of `out` (ceilings/ffma.h).
void ffma(const Tensor& out, int64_t rounds);

}  // namespace smem::bindings
