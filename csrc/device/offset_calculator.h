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

/// Takes the index along dimension d, the innermost one, from `index`, and adds its offsets.
template <int TENSORS>
__device__ __forceinline__ void step(const OffsetCalculator<TENSORS>& loop, int d, int64_t& index,
                                     Offsets<TENSORS>& offsets) {
  const int64_t quotient = index / loop.size[d];  // nvcc divides by 32 bits where these suffice
  const int64_t i = index - quotient * loop.size[d];
  if constexpr (TENSORS == 1) {  // a loop of one iteration would hide offsets_at's pragma from nvcc
    offsets.of[0] += i * loop.stride[0][d];
  } else {
    for (int t = 0; t < TENSORS; ++t) offsets.of[t] += i * loop.stride[t][d];
  }
  index = quotient;
}

/// Each tensor's offset in elements at linear index `index`. One dimension, by far the most
/// frequent case, costs no division.
template <int TENSORS>
__device__ __forceinline__ Offsets<TENSORS> offsets_at(const OffsetCalculator<TENSORS>& loop,
                                                       int64_t index) {
  Offsets<TENSORS> offsets{};
  if (loop.rank > 1) {
    // nvcc would copy the loop seven times: half of the code of many a reduction. Three dimensions
    // do without it, because the first load at an index that is not constant takes 0.2 us.
#pragma unroll 1
    for (int d = loop.rank - 1; d > 2; --d) step(loop, d, index, offsets);
    if (loop.rank > 2) step(loop, 2, index, offsets);
    step(loop, 1, index, offsets);
  }
  if (loop.rank > 0) {
    for (int t = 0; t < TENSORS; ++t) offsets.of[t] += index * loop.stride[t][0];
  }
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
