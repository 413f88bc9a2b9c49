// The scale of a column of B while it is split, before all of the column has been read. The header
// of split_producer.h explains the speculation that this serves.
#pragma once

#include "gemm/fp16x3/scale.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {

using split::AbsMinMax;

/// A magnitude key of an element x is (bits of x << 1) - 1 as an unsigned number. The shift drops
/// the sign, so keys order as magnitudes do, except that a zero wraps around to the largest key.
struct RunningScale {
  /// Scales with which any element and its lo are finite, normal numbers.
  static constexpr int MIN_SCALE_EXPONENT = -100, MAX_SCALE_EXPONENT = 112;

  uint32_t amax = 0;  ///< the largest magnitude so far, as bits of a float
  /// The smallest magnitude key of the elements that were split while the scale was speculative.
  uint32_t amin_key = ~0u;
  int scale_exponent = MAX_SCALE_EXPONENT;
  split::SplitStatus status = split::REPRESENTABLE;
  bool is_final = false;  ///< amax and status are those of the whole column

  /// To be called when `amax` has grown.
  __device__ __forceinline__ void update() {
    scale_exponent = min(max(split::MAX_EXPONENT - split::exponent_of(amax), MIN_SCALE_EXPONENT),
                         MAX_SCALE_EXPONENT);
  }

  /// Whether the element of this key has an exponent of MIN_EXPONENT or less at the current scale,
  /// or would have if amax grew by GROWTH binades more. From 128 normally distributed elements to
  /// 30,000 amax grows by one binade.
  __device__ __forceinline__ bool may_become_outlier(uint32_t key) const {
    constexpr int GROWTH = 1;
    constexpr int FIRST_SAFE = split::EXPONENT_BIAS + split::MIN_EXPONENT + 1 + GROWTH;
    static_assert(FIRST_SAFE - MAX_SCALE_EXPONENT > 0, "a normal number");
    return key < static_cast<uint32_t>(FIRST_SAFE - scale_exponent) << (split::MANTISSA_BITS + 1);
  }

  /// Makes the scale final. `rest` is the AbsMinMax of the elements that have not been split yet.
  __device__ __forceinline__ void finalize(AbsMinMax rest) {
    is_final = true;
    amax = rest.amax = max(amax, rest.amax);
    status = split::row_scale_of(rest).status;
    update();
  }

  /// At the end of the column: whether all elements were split as scale.h would have split them.
  /// This holds if the scale is that of the true amax, not clamped, and no element that was split
  /// while the scale was speculative is in the last represented binade or below.
  __device__ __forceinline__ bool is_valid() const {
    if (amax == 0 || status == split::FALLBACK) return true;
    const uint32_t amin = amin_key / 2 + 1;
    return split::MAX_EXPONENT - split::exponent_of(amax) == scale_exponent &&
           split::exponent_of(amin) + scale_exponent > split::MIN_EXPONENT;
  }
};

/// The largest magnitude of some elements, and their smallest magnitude key.
struct MagnitudeRange {
  // Three-way maxima, without masking the sign of each element: among signed numbers a positive
  // float is the largest, among unsigned ones the negative float of the largest magnitude.
  uint32_t max_unsigned = 0, amin_key = ~0u;
  int max_signed = 0;

  __device__ __forceinline__ void include(float first, float second) {
    const uint32_t x = __float_as_uint(first), y = __float_as_uint(second);
    max_unsigned = __vimax3_u32(max_unsigned, x, y);
    max_signed = __vimax3_s32(max_signed, static_cast<int>(x), static_cast<int>(y));
    amin_key = __vimin3_u32(amin_key, x + x - 1, y + y - 1);
  }
  __device__ __forceinline__ uint32_t amax() const {
    return max(max_unsigned & ~(1u << 31), static_cast<uint32_t>(max_signed));
  }
};

/// By a whole warp: the AbsMinMax of a column's elements from k on. `src` is its first element.
/// LOADS of a lane are in flight.
template <int LOADS>
__device__ __forceinline__ AbsMinMax minmax_from(const float* src, int64_t k_stride, int k,
                                                 int length) {
  k += threadIdx.x % 32;
  src += k * k_stride;
  AbsMinMax minmax;
#pragma unroll 1
  for (; k < length; k += 32 * LOADS) {
    float elements[LOADS];
#pragma unroll
    for (int i = 0; i < LOADS; ++i, src += 32 * k_stride) {
      elements[i] = k + 32 * i < length ? *src : 0.0f;
    }
#pragma unroll
    for (const float element : elements) minmax.include(element);
  }
  return minmax.warp_reduce(32);
}

/// Splits as split::HiLo does, but for elements that are represented, and with a single fma for
/// each lo: lo = x 2^(e + 12) - hi 2^12.
template <int N>
__device__ __forceinline__ void split_represented(const Vector<float, N>& elements,
                                                  int scale_exponent, Vector<half, N>& hi,
                                                  Vector<half, N>& lo) {
  constexpr float LO_FACTOR = 1 << split::LO_SHIFT;
  const float scale = split::power_of_two(scale_exponent);
  const float lo_scale = split::power_of_two(scale_exponent + split::LO_SHIFT);
#pragma unroll
  for (int i = 0; i < N; i += 2) {
    const float x = elements.lane[i], y = elements.lane[i + 1];
    const half2 high = __floats2half2_rn(x * scale, y * scale);
    const float2 represented = __half22float2(high);
    const half2 low = __floats2half2_rn(fmaf(-LO_FACTOR, represented.x, x * lo_scale),
                                        fmaf(-LO_FACTOR, represented.y, y * lo_scale));
    hi.lane[i] = __low2half(high);
    hi.lane[i + 1] = __high2half(high);
    lo.lane[i] = __low2half(low);
    lo.lane[i + 1] = __high2half(low);
  }
}

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
