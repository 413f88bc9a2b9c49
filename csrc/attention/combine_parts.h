// Attention over keys that were cut into parts: the parts' results, combined.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "device/dtype.h"
#include "device/launch.h"

namespace smem::attention {

struct CombineProblem {
  const void* parts_out;     ///< (sequences, parts, group, heads, features), contiguous
  const float* logsumexp;    ///< of each part's scores: (heads, sequences * parts * group)
  const int32_t* lengths;    ///< how many keys a part has: (sequences, parts)
  void* out;                 ///< (sequences, group, heads, features), contiguous
  int64_t logsumexp_stride;  ///< from one head to the next
  int64_t sequences;
  int parts, group, heads, features;
  DType dtype;  ///< of parts_out and out: float32, float16 or bfloat16
};

/// The kernel of one of the two builds; there is none for the device in a build without CUDA.
using Combine = void (*)(const CombineProblem&, const Device&);
extern const Combine device_combine, host_combine;
Combine combine(Build build);

}  // namespace smem::attention
