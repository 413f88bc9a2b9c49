// A nest of loops over the leading dimensions that several tensors share, flattened to one index.
#pragma once

#include <cstdint>

#include "device/platform.h"

namespace smem {

constexpr int MAX_RANK = 8;

/// `rank` loops, the last one fastest; stride[t][d] is tensor t's step in elements along loop d.
template <int TENSORS>
struct Loop {
  int rank = 0;
  int64_t size[MAX_RANK] = {};
  int64_t stride[TENSORS][MAX_RANK] = {};

  int64_t count() const {
    int64_t product = 1;
    for (int d = 0; d < rank; ++d) product *= size[d];
    return product;
  }
};

inline namespace SMEM_BUILD {

template <int TENSORS>
struct Offsets {
  int64_t of[TENSORS];
};

/// Each tensor's offset in elements at iteration `index` of the nest.
template <int TENSORS>
__device__ __forceinline__ Offsets<TENSORS> offsets_at(const Loop<TENSORS>& loop, int64_t index) {
  Offsets<TENSORS> offsets{};
  for (int d = loop.rank - 1; d >= 0; --d) {
    const int64_t i = d == 0 ? index : index % loop.size[d];
    index /= loop.size[d];
    for (int t = 0; t < TENSORS; ++t) offsets.of[t] += i * loop.stride[t][d];
  }
  return offsets;
}

}  // namespace SMEM_BUILD
}  // namespace smem
