#include "cpu_emulator/sm90/tensor_core.h"

#include <bit>
#include <cmath>
#include <limits>

namespace smem::cpu_emulator::sm90 {

namespace {

/// The bits that an aligned addend keeps after the point: those of float32, and two more.
constexpr int FRACTION_BITS = 23 + 2;
/// A zero has less than any other exponent, and so have its products.
constexpr int ZERO_EXPONENT = -20000;

struct FormatBits {
  int mantissa, exponent;
};
constexpr FormatBits bits_of(Format format) {
  return format == Format::f16 ? FormatBits{10, 5} : FormatBits{format == Format::bf16 ? 7 : 10, 8};
}

/// A number as significand * 2 ^ exponent. The significand is in [1, 2), or less if the number is
/// subnormal.
struct Decoded {
  float significand;
  int exponent;
  float special;  ///< Inf or NaN if it is one of these, otherwise 0
};

Decoded decode(int sign, int exponent, int mantissa, int mantissa_bits, int exponent_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1, largest = (1 << exponent_bits) - 1;
  const float sign_factor = sign ? -1.0f : 1.0f;
  if (exponent == largest) {
    const float special = mantissa ? std::numeric_limits<float>::quiet_NaN()
                                   : sign_factor * std::numeric_limits<float>::infinity();
    return {0, ZERO_EXPONENT, special};
  }
  if (exponent == 0 && mantissa == 0) return {0, ZERO_EXPONENT, 0};
  const int hidden = exponent == 0 ? 0 : 1 << mantissa_bits;
  const auto significand =
      static_cast<float>(hidden + mantissa) / static_cast<float>(1 << mantissa_bits);
  return {sign_factor * significand, (exponent == 0 ? 1 : exponent) - bias, 0};
}

Decoded decode(Format format, uint32_t bits) {
  const auto [mantissa, exponent] = bits_of(format);
  if (format == Format::tf32) bits >>= 13;
  return decode(static_cast<int>(bits >> (mantissa + exponent) & 1),
                static_cast<int>(bits >> mantissa & ((1u << exponent) - 1)),
                static_cast<int>(bits & ((1u << mantissa) - 1)), mantissa, exponent);
}

Decoded decode(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return decode(static_cast<int>(bits >> 31), static_cast<int>(bits >> 23 & 0xff),
                static_cast<int>(bits & 0x7fffff), 23, 8);
}

/// 2 ^ (FRACTION_BITS - shift), and something that makes any addend 0 if `shift` is large.
float alignment(int shift) {
  constexpr int LONG_SHIFT = 40;
  const int exponent = FRACTION_BITS - (shift < LONG_SHIFT ? shift : LONG_SHIFT);
  return std::bit_cast<float>((127 + exponent) << 23);
}

/// sum * 2 ^ (exponent - FRACTION_BITS), truncated to a float32.
float truncated(int64_t sum, int exponent) {
  constexpr uint64_t BELOW_FLOAT32 = (1ull << (52 - 23)) - 1;
  constexpr double LEAST_NORMAL = std::numeric_limits<float>::min();
  constexpr double LEAST_STEP = std::numeric_limits<float>::denorm_min();
  if (sum == 0) return 0;
  const double exact = std::ldexp(static_cast<double>(sum), exponent - FRACTION_BITS);
  const double kept = std::bit_cast<double>(std::bit_cast<uint64_t>(exact) & ~BELOW_FLOAT32);
  if (std::abs(kept) < LEAST_NORMAL) {
    return static_cast<float>(std::trunc(kept / LEAST_STEP) * LEAST_STEP);
  }
  return static_cast<float>(kept);
}

/// The sum of products of which some are Inf or NaN.
float special_sum(Format format, const uint32_t* a, const uint32_t* b_column, float accum) {
  const auto value = [](const Decoded& x) {
    return x.special != 0 ? x.special
                          : std::copysign(x.significand == 0 ? 0.0f : 1.0f, x.significand);
  };
  // Finite addends do not matter beside Inf and NaN.
  float sum = std::isfinite(accum) ? 0 : accum;
  for (int k = 0; k < mma_k(format); ++k) {
    const float product =
        value(decode(format, a[k])) * value(decode(format, b_column[k * MOST_COLS]));
    if (!std::isfinite(product)) sum += product;
  }
  return std::isnan(sum) ? std::bit_cast<float>(0x7fffffff) : sum;
}

/// One operand's rows of numbers, decoded, in arrays that loops over columns vectorize.
struct Columns {
  float significand[MOST_K][MOST_COLS];
  int exponent[MOST_K][MOST_COLS];
  bool has_special[MOST_COLS];
};

}  // namespace

void multiply_add(Format format, int rows, int cols, const uint32_t* a, const uint32_t* b,
                  float* accum, bool accumulate) {
  const int depth = mma_k(format);
  Columns columns;
  for (int n = 0; n < cols; ++n) columns.has_special[n] = false;
  for (int k = 0; k < depth; ++k) {
    for (int n = 0; n < cols; ++n) {
      const Decoded x = decode(format, b[k * MOST_COLS + n]);
      columns.significand[k][n] = x.significand;
      columns.exponent[k][n] = x.exponent;
      columns.has_special[n] |= x.special != 0;
    }
  }
  for (int row = 0; row < rows; ++row) {
    const uint32_t* const a_row = a + row * depth;
    float* const accum_row = accum + row * MOST_COLS;
    Decoded factors[MOST_K];
    bool has_special = false;
    for (int k = 0; k < depth; ++k) {
      factors[k] = decode(format, a_row[k]);
      has_special |= factors[k].special != 0;
    }
    float addend[MOST_COLS];
    int addend_exponent[MOST_COLS], largest[MOST_COLS], sum[MOST_COLS];
    bool is_special[MOST_COLS];
    for (int n = 0; n < cols; ++n) {
      const Decoded x = decode(accumulate ? accum_row[n] : 0.0f);
      addend[n] = x.significand;
      largest[n] = addend_exponent[n] = x.exponent;
      is_special[n] = has_special || columns.has_special[n] || x.special != 0;
      sum[n] = 0;
    }
    for (int k = 0; k < depth; ++k) {
      for (int n = 0; n < cols; ++n) {
        const int exponent = factors[k].exponent + columns.exponent[k][n];
        largest[n] = exponent > largest[n] ? exponent : largest[n];
      }
    }
    // A product is less than 4, so 16 of them are less than 2 ^ 31; converting to int truncates.
    for (int k = 0; k < depth; ++k) {
      for (int n = 0; n < cols; ++n) {
        const int exponent = factors[k].exponent + columns.exponent[k][n];
        sum[n] += static_cast<int>(factors[k].significand * columns.significand[k][n] *
                                   alignment(largest[n] - exponent));
      }
    }
    for (int n = 0; n < cols; ++n) {
      const auto last =
          static_cast<int64_t>(addend[n] * alignment(largest[n] - addend_exponent[n]));
      const float before = accumulate ? accum_row[n] : 0.0f;
      accum_row[n] = is_special[n] ? special_sum(format, a_row, b + n, before)
                                   : truncated(sum[n] + last, largest[n]);
    }
  }
}

}  // namespace smem::cpu_emulator::sm90
