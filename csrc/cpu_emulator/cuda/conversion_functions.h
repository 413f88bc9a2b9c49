// Floating-point numbers to integers, and the same bits as another type.
#pragma once

#include <limits>

#include "math_functions.h"

/// A rounded number as an integer: what is too large becomes the nearest integer, NaN 0, or the
/// highest bit where a 64-bit type takes part (PTX ISA, "cvt").
template <typename To, typename From>
SMEM_MATH constexpr To smem_to_integer(From rounded) {
  using Limits = std::numeric_limits<To>;
  if (rounded != rounded) {
    constexpr bool WIDE = sizeof(To) == 8 || sizeof(From) == 8;
    return WIDE ? static_cast<To>(1ull << (8 * sizeof(To) - 1)) : To{0};
  }
  // The largest integer plus one is a power of two: exact.
  constexpr From END = static_cast<From>(Limits::max() / 2 + 1) * 2;  // NOLINT: it is meant
  if (rounded >= END) return Limits::max();
  if (rounded < static_cast<From>(Limits::min())) return Limits::min();
  return static_cast<To>(rounded);
}

#define SMEM_TO_INTEGER(from, From, to, To)                                               \
  SMEM_MATH To __##from##2##to##_rn(From x) { return smem_to_integer<To>(nearbyint(x)); } \
  SMEM_MATH To __##from##2##to##_rz(From x) { return smem_to_integer<To>(trunc(x)); }     \
  SMEM_MATH To __##from##2##to##_rd(From x) { return smem_to_integer<To>(floor(x)); }     \
  SMEM_MATH To __##from##2##to##_ru(From x) { return smem_to_integer<To>(ceil(x)); }
SMEM_TO_INTEGER(float, float, int, int)
SMEM_TO_INTEGER(float, float, uint, unsigned)
SMEM_TO_INTEGER(float, float, ll, long long)
SMEM_TO_INTEGER(float, float, ull, unsigned long long)
SMEM_TO_INTEGER(double, double, int, int)
SMEM_TO_INTEGER(double, double, uint, unsigned)
SMEM_TO_INTEGER(double, double, ll, long long)
SMEM_TO_INTEGER(double, double, ull, unsigned long long)
#undef SMEM_TO_INTEGER

SMEM_MATH unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
SMEM_MATH int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
SMEM_MATH float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
SMEM_MATH float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
SMEM_MATH long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
SMEM_MATH double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
SMEM_MATH int __double2hiint(double x) { return static_cast<int>(__double_as_longlong(x) >> 32); }
SMEM_MATH int __double2loint(double x) { return static_cast<int>(__double_as_longlong(x)); }
SMEM_MATH double __hiloint2double(int high, int low) {
  const auto bits = static_cast<uint64_t>(static_cast<unsigned>(high)) << 32;
  return __builtin_bit_cast(double, bits | static_cast<unsigned>(low));
}
