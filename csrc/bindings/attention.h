// torch.ops.smem._combine_parts, on CUDA tensors and, by the CPU emulator, on CPU tensors.
#pragma once

#include "bindings/tensors.h"

namespace smem::bindings {

/// Combines the attention over parts of the keys.
///
/// parts_out: (sequences * parts * group, heads, features), the result over each part.
/// logsumexp: (heads, sequences * parts * group), float32, of the scores over each part.
/// lengths: (sequences * parts), int32, how many keys a part has.
/// Returns (sequences * group, heads, features).
Tensor combine_parts(const Tensor& parts_out, const Tensor& logsumexp, const Tensor& lengths,
                     int64_t parts, int64_t group);

}  // namespace smem::bindings
