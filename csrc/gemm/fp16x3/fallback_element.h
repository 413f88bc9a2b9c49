// One element of out whose row or column is FALLBACK.
#pragma once

#include "gemm/accumulator.h"
#include "gemm/fp16x3/split_metadata.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {

/// The product of a row of A and a column of B over `length` of K by FMAs, in the order of the SIMT
/// kernels (accumulation_order.h). nvcc unrolls the loop, so that 16 loads of each are in flight;
/// ROLLED: not, for less code.
template <bool ROLLED>
__device__ __forceinline__ float fallback_element(const SplitMetadata& a, int64_t row,
                                                  const SplitMetadata& b, int64_t col, int length) {
  const float* a_element = a.src + row * a.mn_stride;
  const float* b_element = b.src + col * b.mn_stride;
  float accum = 0;
  SuperblockAccum<float> promoted(length);
  const int interval = static_cast<int>(accum_interval(length));
  for (int k0 = 0; k0 < length; k0 += interval) {
    const int k_end = min(k0 + interval, length);
    if constexpr (ROLLED) {
#pragma unroll 1
      for (int k = k0; k < k_end; ++k, a_element += a.k_stride, b_element += b.k_stride) {
        accum = fma(*a_element, *b_element, accum);
      }
    } else {
      for (int k = k0; k < k_end; ++k, a_element += a.k_stride, b_element += b.k_stride) {
        accum = fma(*a_element, *b_element, accum);
      }
    }
    promoted.promote_at(k_end, &accum);
  }
  return promoted.total(&accum);
}

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
