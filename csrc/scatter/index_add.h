// Rows that are added to the rows that an index names: torch.Tensor.index_add along dimension 0.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "device/dtype.h"
#include "device/launch.h"

namespace smem::scatter {

/// x[index[i]] += source[order[i]] for i = 0, 1, ... count - 1.
struct IndexAddProblem {
  void* x;               ///< (rows, features), contiguous
  const int64_t* index;  ///< (count)
  const int64_t* order;  ///< (count) if `index` is sorted; null: it is not, and order[i] is i
  const void* source;    ///< (count, features), contiguous
  int64_t rows, count, features;
  DType dtype;  ///< of x and source: float32, float16 or bfloat16
};

/// The kernel of one of the two builds; there is none for the device in a build without CUDA.
using IndexAdd = void (*)(const IndexAddProblem&, const Device&);
extern const IndexAdd device_index_add, host_index_add;
IndexAdd index_add(Build build);

}  // namespace smem::scatter
