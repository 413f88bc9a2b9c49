// The rounding of numbers to 16-bit floating-point formats: half and bfloat16.
#pragma once

#include <stdint.h>

#include "conversion_functions.h"
#include "math_functions.h"

/// A format: a sign, the exponent, and the mantissa without its leading one.
template <int EXPONENT_BITS, int MANTISSA_BITS>
struct smem_narrow_format {
  static constexpr int MANTISSA = MANTISSA_BITS;
  static constexpr int BIAS = (1 << (EXPONENT_BITS - 1)) - 1;
  static constexpr uint16_t INFINITE = ((1 << EXPONENT_BITS) - 1) << MANTISSA_BITS;
};

enum smem_rounding { smem_to_nearest, smem_to_zero, smem_down, smem_up };

/// The bits of `x` in the format. Every number that CUDA converts is exact as a double.
template <typename Format>
__attribute__((noinline, const, no_sanitize("thread"))) constexpr uint16_t smem_narrow(
    double x, smem_rounding rounding = smem_to_nearest) {
  constexpr uint64_t DOUBLE_INFINITE = uint64_t{0x7ff} << 52;
  const auto bits = __builtin_bit_cast(uint64_t, x);
  const uint64_t magnitude = bits << 1 >> 1;
  const bool negative = bits >> 63;
  const auto with_sign = [negative](uint64_t value) {
    return static_cast<uint16_t>(value | (negative ? 0x8000 : 0));
  };
  if (magnitude > DOUBLE_INFINITE) return 0x7fff;  // CUDA's only NaN
  if (magnitude == DOUBLE_INFINITE) return with_sign(Format::INFINITE);
  if (magnitude == 0) return with_sign(0);

  const int exponent = static_cast<int>(magnitude >> 52) - 1023;
  const int least = 1 - Format::BIAS;  // of a normal number
  const uint64_t significand = magnitude << 12 >> 12 | uint64_t{1} << 52;
  int dropped = 52 - Format::MANTISSA + (exponent < least ? least - exponent : 0);
  if (dropped > 54) dropped = 54;  // less than a quarter of the least number, whatever it is
  const uint64_t rest = significand & ((uint64_t{1} << dropped) - 1);
  const uint64_t half = uint64_t{1} << (dropped - 1);
  uint64_t kept = significand >> dropped;
  const bool outward = (rounding == smem_up && !negative) || (rounding == smem_down && negative);
  if (rounding == smem_to_nearest) {
    kept += rest > half || (rest == half && (kept & 1));
  } else {
    kept += outward && rest;
  }
  // The leading one of a normal number adds 1 to the exponent; so does a carry.
  if (exponent > least) kept += static_cast<uint64_t>(exponent - least) << Format::MANTISSA;
  if (kept < Format::INFINITE) return with_sign(kept);
  const bool to_infinity = rounding == smem_to_nearest || outward;
  return with_sign(to_infinity ? Format::INFINITE : Format::INFINITE - 1);
}

template <typename Format>
SMEM_MATH constexpr float smem_widen(uint16_t bits) {
  constexpr int SHIFT = 23 - Format::MANTISSA;
  constexpr float SCALE = __builtin_bit_cast(float, (254 - Format::BIAS) << 23);
  const uint32_t sign = (bits & 0x8000u) << 16, magnitude = (bits & 0x7fffu) << SHIFT;
  const bool finite = (bits & 0x7fff) < Format::INFINITE;
  const float value = __builtin_bit_cast(float, magnitude) * SCALE;
  const uint32_t widened = finite ? __builtin_bit_cast(uint32_t, value) : magnitude | 0x7f800000u;
  return __builtin_bit_cast(float, widened | sign);
}

/// a * b + c for a product that is exact as a double, rounded to odd: rounded once more to a
/// narrower format, it is as if it had been rounded once (Boldo and Melquiond, 2008).
__attribute__((noinline, const, optimize("fp-contract=off"))) inline double smem_fma_to_odd(
    double a, double b, double c) {
  const double product = a * b, sum = product + c;
  // Knuth's TwoSum: the error of the sum.
  const double high = sum - product;
  const double error = (product - (sum - high)) + (c - high);
  auto bits = __builtin_bit_cast(uint64_t, sum);
  if (error != 0 && !(bits & 1)) bits += (error > 0) == (sum > 0) ? 1 : -1;
  return isfinite(sum) ? __builtin_bit_cast(double, bits) : sum;
}

SMEM_MATH uint32_t smem_load_pair(const void* address) {
  uint32_t bits;
  __builtin_memcpy(&bits, address, sizeof(bits));
  return bits;
}

// The greater and the lesser number, as for fmaxf, of which +0 is the greater and -0 the lesser.
SMEM_MATH float smem_max(float a, float b) {
  return isnan(b) || a > b || (a == b && !signbit(a)) ? a : b;
}
SMEM_MATH float smem_min(float a, float b) {
  return isnan(b) || a < b || (a == b && signbit(a)) ? a : b;
}
