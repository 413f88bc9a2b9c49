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

/// Each tensor's offset in elements at iteration `index` of the nest. A single loop, by far the
/// most frequent nest, costs no division.
template <int TENSORS>
__device__ __forceinline__ Offsets<TENSORS> offsets_at(const Loop<TENSORS>& loop, int64_t index) {
  Offsets<TENSORS> offsets{};
  const auto step = [&](int d, int64_t i) {
#pragma unroll
    for (int t = 0; t < TENSORS; ++t) offsets.of[t] += i * loop.stride[t][d];
  };
  for (int d = loop.rank - 1; d > 0; --d) {
    step(d, index % loop.size[d]);
    index /= loop.size[d];
  }
  if (loop.rank > 0) step(0, index);
  return offsets;
}

/// The same as a call. For kernels that unroll their loads: a division takes some hundred
/// instructions, and each load would have its own.
template <int TENSORS>
__device__ __noinline__ Offsets<TENSORS> call_offsets_at(const Loop<TENSORS>& loop, int64_t index) {
  return offsets_at(loop, index);
}

}  // namespace SMEM_BUILD
}  // namespace smem
