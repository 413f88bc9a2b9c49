// torch.ops.smem._ffma and _mma_sync, for `bench`. CUDA tensors only.
#pragma once

#include "bindings/tensors.h"

namespace smem::bindings {

/// Executes `rounds` rounds of FFMAs per element of `out` (ceilings/ffma.h).
void ffma(const Tensor& out, int64_t rounds);

/// Executes `rounds` rounds of mma.sync per 32 elements of `out` (ceilings/mma_sync.h).
void mma_sync(const Tensor& out, int64_t rounds, bool is_tf32);

}  // namespace smem::bindings
