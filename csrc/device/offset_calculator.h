// Offsets of several tensors from one linear index over the dimensions that they share, such as the
// dimensions of a batch. As ATen's OffsetCalculator.
#pragma once

#include <cstdint>

#include "device/platform.h"

namespace smem {

constexpr int MAX_RANK = 8;

/// `rank` dimensions, the last one varies fastest; stride[t][d] is the stride of tensor t along
/// dimension d, in elements.
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

/// Each tensor's offset in elements at linear index `index`. One dimension, by far the most
/// frequent case, costs no division.
template <int TENSORS>
__device__ __forceinline__ Offsets<TENSORS> offsets_at(const OffsetCalculator<TENSORS>& loop,
                                                       int64_t index) {
  Offsets<TENSORS> offsets{};
  const auto step = [&](int d, int64_t i) {
#pragma unroll
    for (int t = 0; t < TENSORS; ++t) offsets.of[t] += i * loop.stride[t][d];
  };
  for (int d = loop.rank - 1; d > 0; --d) {
    int64_t quotient = 0;
    if ((index | loop.size[d]) >> 32 == 0) {  // 32-bit division: a third of the instructions
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

/// The same, not inlined. For kernels that unroll their loads: a division takes about a hundred
/// instructions, and each unrolled load would get a copy of them.
template <int TENSORS>
__device__ __noinline__ Offsets<TENSORS> call_offsets_at(const OffsetCalculator<TENSORS>& loop,
                                                         int64_t index) {
  return offsets_at(loop, index);
}

/// The offset at a linear index, and how many indices are left in the innermost dimension.
struct Run {
  int64_t offset, left;
};

/// Not inlined either: for kernels that need it once per innermost dimension.
__device__ __noinline__ inline Run call_run_at(const OffsetCalculator<1>& loop, int64_t index) {
  const int64_t size = loop.rank > 0 ? loop.size[loop.rank - 1] : 1;
  return {offsets_at(loop, index).of[0], size - index % size};
}

}  // namespace SMEM_BUILD
}  // namespace smem
