// Arithmetic with a rounding mode in its name, which is never contracted to an fma: __fadd_rz.
#pragma once

#include <fenv.h>

#include "math_functions.h"

/// The CPU's rounding mode while this object exists.
class smem_rounding_mode {
 public:
  __attribute__((always_inline)) explicit smem_rounding_mode(int mode) : before_(fegetround()) {
    fesetround(mode);
  }
  __attribute__((always_inline)) ~smem_rounding_mode() { fesetround(before_); }

 private:
  int before_;
};

// The assembly keeps the compiler from computing before the mode is set, or after it is reset.
#define SMEM_ROUNDED(name, mode, T, expression, ...)                                           \
  __attribute__((noinline, no_sanitize("thread"), optimize("fp-contract=off"))) inline T name( \
      __VA_ARGS__) {                                                                           \
    const smem_rounding_mode rounding(mode);                                                   \
    __asm__ __volatile__("" : "+m"(a) : : "memory");                                           \
    T result = expression;                                                                     \
    __asm__ __volatile__("" : "+m"(result) : : "memory");                                      \
    return result;                                                                             \
  }
#define SMEM_ROUNDED_4_WAYS(name, T, expression, ...)                \
  SMEM_ROUNDED(name##_rn, FE_TONEAREST, T, expression, __VA_ARGS__)  \
  SMEM_ROUNDED(name##_rz, FE_TOWARDZERO, T, expression, __VA_ARGS__) \
  SMEM_ROUNDED(name##_rd, FE_DOWNWARD, T, expression, __VA_ARGS__)   \
  SMEM_ROUNDED(name##_ru, FE_UPWARD, T, expression, __VA_ARGS__)
#define SMEM_ROUNDED_ARITHMETIC(prefix, T, fused)      \
  SMEM_ROUNDED_4_WAYS(prefix##add, T, a + b, T a, T b) \
  SMEM_ROUNDED_4_WAYS(prefix##sub, T, a - b, T a, T b) \
  SMEM_ROUNDED_4_WAYS(prefix##mul, T, a* b, T a, T b)  \
  SMEM_ROUNDED_4_WAYS(prefix##div, T, a / b, T a, T b) \
  SMEM_ROUNDED_4_WAYS(prefix##rcp, T, 1 / a, T a)      \
  SMEM_ROUNDED_4_WAYS(prefix##sqrt, T, sqrt(a), T a)   \
  SMEM_ROUNDED_4_WAYS(fused, T, fma(a, b, c), T a, T b, T c)
SMEM_ROUNDED_ARITHMETIC(__f, float, __fmaf)
SMEM_ROUNDED_ARITHMETIC(__d, double, __fma)

// Numbers to a floating-point type that may not have them: __ll2float_rz.
SMEM_ROUNDED_4_WAYS(__int2float, float, static_cast<float>(a), int a)
SMEM_ROUNDED_4_WAYS(__uint2float, float, static_cast<float>(a), unsigned a)
SMEM_ROUNDED_4_WAYS(__ll2float, float, static_cast<float>(a), long long a)
SMEM_ROUNDED_4_WAYS(__ull2float, float, static_cast<float>(a), unsigned long long a)
SMEM_ROUNDED_4_WAYS(__double2float, float, static_cast<float>(a), double a)
SMEM_ROUNDED_4_WAYS(__ll2double, double, static_cast<double>(a), long long a)
SMEM_ROUNDED_4_WAYS(__ull2double, double, static_cast<double>(a), unsigned long long a)
SMEM_MATH double __int2double_rn(int a) { return a; }
SMEM_MATH double __uint2double_rn(unsigned a) { return a; }
#undef SMEM_ROUNDED
#undef SMEM_ROUNDED_4_WAYS
#undef SMEM_ROUNDED_ARITHMETIC
