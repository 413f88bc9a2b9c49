// A nest of loops over the leading dimensions that several tensors share, flattened to one index.
#pragma once

#include <cstdint>

#include "device/platform.h"

namespace smem {

constexpr int MAX_RANK = 8;

/// `rank` loops, the last one fastest; stride[t][d] is tensor t's step in elements along loop d.
template <int TENSORS>
struct OffsetCalculator {
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
__device__ __forceinline__ Offsets<TENSORS> offsets_at(const OffsetCalculator<TENSORS>& loop, int64_t index) {
  Offsets<TENSORS> offsets{};
  const auto step = [&](int d, int64_t i) {
#pragma unroll
    for (int t = 0; t < TENSORS; ++t) offsets.of[t] += i * loop.stride[t][d];
  };
  for (int d = loop.rank - 1; d > 0; --d) {
    int64_t quotient = 0;
    if ((index | loop.size[d]) >> 32 == 0) {  // a third of the instructions
      quotient = static_cast<uint32_t>(index) / static_cast<uint32_t>(loop.size[d]);
    } else {
      quotient = index / loop.size[d];
    }
    step(d, index - quotient * loop.size[d]);
    index = quotient;
  }
  if (loop.rank > 0) step(0, index);
  return offsets;
}

/// The same as a call. For kernels that unroll their loads: a division takes some hundred
/// instructions, and each load would have its own.
template <int TENSORS>
__device__ __noinline__ Offsets<TENSORS> call_offsets_at(const OffsetCalculator<TENSORS>& loop, int64_t index) {
  return offsets_at(loop, index);
}

/// Where iteration `index` of a nest is, and how many iterations of the innermost loop are left.
struct Run {
  int64_t offset, left;
};

/// As a call, too: for kernels that ask once a run.
__device__ __noinline__ inline Run call_run_at(const OffsetCalculator<1>& loop, int64_t index) {
  const int64_t size = loop.rank > 0 ? loop.size[loop.rank - 1] : 1;
  return {offsets_at(loop, index).of[0], size - index % size};
}

}  // namespace SMEM_BUILD
}  // namespace smem
