// torch.ops.smem._index_add_, on CUDA tensors and, by the CPU emulator, on CPU tensors.
#pragma once

#include "bindings/tensors.h"

namespace smem::bindings {

/// x[index[i]] += source[order[i]] for i = 0, 1, ..., in this order and rounded once per row of x.
///
/// x: (rows, features), source: (count, features), contiguous, of one dtype. index: (count), int64.
/// order: (count), int64, if index is sorted; else order[i] is i.
void index_add_(const Tensor& x, const Tensor& index, const Tensor& source,
                const OptionalTensor& order);

}  // namespace smem::bindings
