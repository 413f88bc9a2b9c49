// Which rows two fp16 numbers per element can represent, the power of two that scales a row for
// them, and the split of its elements.
//
// The row's largest magnitude is scaled to [2^14, 2^15), the highest binade whose numbers still are
// fp16 when rounded up. Take an element scaled to y, 2^e <= |y| < 2^(e+1). It has 24 bits and so is
// a multiple of u = 2^(e-23).
//
//   hi = y rounded to 11 bits. y - hi is n * u with |n| <= 2^12, and exact in float.
//   lo = (y - hi) * 2^12 rounded to 11 bits. It is exact unless n takes 12 bits, and then it is off
//   by at most u (times 2^12), where u <= 2^-23 |y|. |lo| <= 2^15 because |y - hi| <= 2^3, so no
//   larger factor than 2^12 would fit.
//
// This holds down to fp16's smallest numbers. These are multiples of 2^-24, so lo / 2^12 is a
// multiple of 2^-36 and off by up to 2^-37. That still is 2^-23 |y| or less if |y| >= 2^-14; below,
// an error of 2^-37 is more (y = 2^-14 - 2^-37 has it). Hence the rule, which looks at exponents
// alone: hi and lo represent a row of finite elements if none of them, apart from zeros, is more
// than 28 binades below the largest. An element below that is an outlier. A normally distributed
// number is one with a probability of 2^-26, so one row of 4096 in 16384 has an outlier. Therefore
// a single outlier is left out of hi and lo and stored beside them.
#pragma once

#include "device/vector.h"
#include "gemm/fp16x3/split.h"

namespace smem::gemm::fp16x3::split::inline SMEM_BUILD {

/// Elements per access of a thread, 16 bytes.
constexpr int VEC_SIZE = 4;
using FloatVec = Vector<float, VEC_SIZE>;

/// Exponents of a scaled row: that of its largest element, and the least one that is represented.
constexpr int MAX_EXPONENT = 14, MIN_EXPONENT = -14;
static_assert(MIN_EXPONENT == -24 - LO_SHIFT - 1 + 23,
              "half of fp16's least number, LO_SHIFT binades down, is 2^-23 of 2^MIN_EXPONENT");

constexpr uint32_t INFINITY_BITS = 0x7f800000, MIN_NORMAL_BITS = 0x00800000;
constexpr int EXPONENT_BIAS = 127, MANTISSA_BITS = 23;

/// The largest and the smallest magnitudes of some elements, as bits of floats without the sign,
/// which order as the magnitudes do.
struct alignas(16) AbsMinMax {
  uint32_t amax = 0;
  /// The two smallest that are not zero, minus one: a zero wraps around and so is above all others.
  uint32_t amin_minus_one = UINT32_MAX, second_amin_minus_one = UINT32_MAX;

  __device__ __forceinline__ void merge(const AbsMinMax& other) {
    amax = larger(amax, other.amax);
    second_amin_minus_one = smaller(smaller(second_amin_minus_one, other.second_amin_minus_one),
                                    larger(amin_minus_one, other.amin_minus_one));
    amin_minus_one = smaller(amin_minus_one, other.amin_minus_one);
  }
  __device__ __forceinline__ void include(float element) {
    const uint32_t magnitude = __float_as_uint(element) & ~(1u << 31);
    merge({magnitude, magnitude - 1});
  }

  /// Butterfly reduction over `lanes` neighbouring lanes, or over every `lane_step`-th of them.
  /// Both are powers of two.
  __device__ __forceinline__ AbsMinMax warp_reduce(int lanes, int lane_step = 1) const {
    AbsMinMax reduced = *this;
    for (int step = lanes / 2; step >= lane_step; step /= 2) {
      reduced.merge({__shfl_xor_sync(~0u, reduced.amax, step),
                     __shfl_xor_sync(~0u, reduced.amin_minus_one, step),
                     __shfl_xor_sync(~0u, reduced.second_amin_minus_one, step)});
    }
    return reduced;
  }

 private:
  __device__ __forceinline__ static uint32_t smaller(uint32_t a, uint32_t b) {
    return a < b ? a : b;
  }
  __device__ __forceinline__ static uint32_t larger(uint32_t a, uint32_t b) {
    return a > b ? a : b;
  }
};

/// floor(log2) of a magnitude that is neither 0 nor infinite.
__device__ __forceinline__ int exponent_of(uint32_t magnitude) {
  constexpr int SHIFT = 24;  // makes the least subnormal number, 2^-149, a normal one
  if (magnitude >= MIN_NORMAL_BITS) {
    return static_cast<int>(magnitude >> MANTISSA_BITS) - EXPONENT_BIAS;
  }
  const float normal = __uint_as_float(magnitude) * float{1 << SHIFT};
  return static_cast<int>(__float_as_uint(normal) >> MANTISSA_BITS) - EXPONENT_BIAS - SHIFT;
}

/// 2^exponent, a normal number.
__device__ __forceinline__ float power_of_two(int exponent) {
  return __uint_as_float(static_cast<uint32_t>(EXPONENT_BIAS + exponent) << MANTISSA_BITS);
}

/// How a row is scaled: by 2^scale_exponent, -113 to 163, or by 1 if its status is FALLBACK.
struct RowScale {
  int scale_exponent;
  SplitStatus status;

  /// Both fields as one number.
  __device__ __forceinline__ int pack() const { return scale_exponent * 4 + status; }
  __device__ __forceinline__ static RowScale unpack(int packed) {
    return {packed >> 2, static_cast<SplitStatus>(packed & 3)};
  }

  /// Whether the element is too small for hi and lo.
  __device__ __forceinline__ bool is_outlier(float element) const {
    const uint32_t magnitude = __float_as_uint(element) & ~(1u << 31);
    return magnitude != 0 && exponent_of(magnitude) + scale_exponent < MIN_EXPONENT;
  }
};

__device__ __forceinline__ RowScale row_scale_of(const AbsMinMax& row) {
  if (row.amax == 0) return {0, REPRESENTABLE};
  if (row.amax >= INFINITY_BITS) return {0, FALLBACK};
  const int scale_exponent = MAX_EXPONENT - exponent_of(row.amax);
  const auto is_outlier = [&](uint32_t magnitude) {
    return exponent_of(magnitude) + scale_exponent < MIN_EXPONENT;
  };
  if (!is_outlier(row.amin_minus_one + 1)) return {scale_exponent, REPRESENTABLE};
  const bool has_second = row.second_amin_minus_one != UINT32_MAX;
  if (has_second && is_outlier(row.second_amin_minus_one + 1)) return {0, FALLBACK};
  return {scale_exponent, ONE_OUTLIER};
}

__device__ __forceinline__ void store_row_scale(const SplitOperand& operand, int64_t row,
                                                RowScale scale) {
  operand.exponent[row] = -scale.scale_exponent;
  operand.status[row] = static_cast<uint8_t>(scale.status);
  if (scale.status == ONE_OUTLIER) return;  // store_if_outlier stores these two
  operand.outlier_k[row] = int64_t{0};
  operand.outlier[row] = 0.0f;
}

/// Rounds both numbers with one instruction.
__device__ __forceinline__ Vector<half, 2> round_to_half2(Accumulator<float> x,
                                                          Accumulator<float> y) {
#ifdef __CUDACC__
  const half2 pair = __floats2half2_rn(x, y);
  return {__low2half(pair), __high2half(pair)};
#else
  return {from_accumulator<half>(x), from_accumulator<half>(y)};
#endif
}

/// Multiplies by half of the scale, because 2^163 is no float, and zeroes what hi and lo must not
/// hold. In a FALLBACK row that is every element, as one that is not finite would stay so. In a
/// ONE_OUTLIER row it is the outlier: products of two lo are not computed, and a tiny element would
/// have nothing but lo.
template <int N>
__device__ __forceinline__ void prescale(Vector<float, N>& elements, int& scale_exponent,
                                         SplitStatus status) {
  using Acc = Accumulator<float>;
  const Acc first = power_of_two(scale_exponent / 2);
  const Acc second = power_of_two(scale_exponent - scale_exponent / 2);
  scale_exponent -= scale_exponent / 2;
#pragma unroll
  for (float& element : elements.lane) {
    const Acc x = to_accumulator(element) * first;
    const bool is_outlier = std::abs(number_of(x * second)) < power_of_two(MIN_EXPONENT);
    element = status == FALLBACK || is_outlier ? 0.0f : from_accumulator<float>(x);
  }
}

/// hi and lo of N neighbouring elements of a row.
template <int N>
struct HiLo {
  using Acc = Accumulator<float>;

  Vector<half, N> hi, lo;

  __device__ __forceinline__ HiLo(const Vector<float, N>& source, RowScale scale) {
    Vector<float, N> elements = source;
    int scale_exponent = scale.scale_exponent;
    // Hardly any row takes this branch. Without it, tests of each element would make a split half
    // as many instructions again.
    if (scale.status != REPRESENTABLE || scale_exponent > EXPONENT_BIAS) {
      prescale(elements, scale_exponent, scale.status);
    }
    const Acc factor = power_of_two(scale_exponent), lo_factor = power_of_two(LO_SHIFT);
#pragma unroll
    for (int i = 0; i < N; i += 2) {
      const Acc x = to_accumulator(elements.lane[i]) * factor;
      const Acc y = to_accumulator(elements.lane[i + 1]) * factor;
      const auto high = round_to_half2(x, y);
      const auto low = round_to_half2((x - to_accumulator(high.lane[0])) * lo_factor,
                                      (y - to_accumulator(high.lane[1])) * lo_factor);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        hi.lane[i + j] = high.lane[j];
        lo.lane[i + j] = low.lane[j];
      }
    }
  }
};

/// Stores the element and its position if it is the outlier of a ONE_OUTLIER row. Returns whether
/// it is.
__device__ __forceinline__ bool store_if_outlier(const SplitOperand& operand, int64_t row,
                                                 int64_t k, float element, RowScale scale) {
  if (!scale.is_outlier(element)) return false;
  operand.outlier_k[row] = k;
  operand.outlier[row] = element;
  return true;
}

/// One k slice of one matrix of the batch.
struct KSlice {
  const float* src;
  int64_t length;

  /// `index` counts the k slices of all matrices.
  __device__ __forceinline__ KSlice(const SplitOperand& operand, uint32_t index) {
    const auto k_slices = static_cast<uint32_t>(operand.k_slices);
    const uint32_t batch = index / k_slices;
    const int64_t k_begin = (index - batch * k_slices) * operand.k_slice_length;
    src = operand.src + batch * operand.batch_stride + k_begin * operand.k_stride;
    length =
        operand.k - k_begin < operand.k_slice_length ? operand.k - k_begin : operand.k_slice_length;
  }
};

/// The offset of element k's hi in its row; its lo is K_BLOCK further on.
__device__ __forceinline__ int64_t hi_offset(int64_t k) {
  return k / K_BLOCK * (2 * K_BLOCK) + k % K_BLOCK;
}

/// Loads the first `num_valid` of VEC_SIZE elements that are `stride` apart; the others are zeros
/// and not read. VECTORIZED: the elements are neighbours at a multiple of 16 bytes, and all or none
/// of them are valid.
template <bool VECTORIZED>
__device__ __forceinline__ FloatVec load_vec(const float* src, int64_t stride, int64_t num_valid) {
  FloatVec vec{};
  if constexpr (VECTORIZED) {
    if (num_valid > 0) vec = load_vector<VEC_SIZE>(src);
  } else {
#pragma unroll
    for (int i = 0; i < VEC_SIZE; ++i) {
      if (i < num_valid) vec.lane[i] = src[i * stride];
    }
  }
  return vec;
}

/// Whether load_vec<true> may load vectors along the dimension of this stride and size.
/// `other_stride` is the stride of the other dimension.
inline bool can_vectorize(const SplitOperand& operand, int64_t stride, int64_t size,
                          int64_t other_stride) {
  return stride == 1 && size % VEC_SIZE == 0 && other_stride % VEC_SIZE == 0 &&
         (operand.batch_count <= 1 || operand.batch_stride % VEC_SIZE == 0) &&
         reinterpret_cast<uintptr_t>(operand.src) % sizeof(FloatVec) == 0;
}
inline bool can_vectorize_along_k(const SplitOperand& operand) {
  return can_vectorize(operand, operand.k_stride, operand.k, operand.mn_stride);
}
inline bool can_vectorize_along_mn(const SplitOperand& operand) {
  return can_vectorize(operand, operand.mn_stride, operand.mn, operand.k_stride);
}

}  // namespace smem::gemm::fp16x3::split::inline SMEM_BUILD
