// CUDA's mathematical functions. Those of the C library are the C library's; the others are
// computed in double, where a GPU may be less exact.
#pragma once

#include <float.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "vector_types.h"

#define SMEM_MATH inline __attribute__((always_inline))

// ------------------------------------------------------------------------- minimum and maximum

#define SMEM_MIN_MAX(T)                               \
  SMEM_MATH T min(T a, T b) { return b < a ? b : a; } \
  SMEM_MATH T max(T a, T b) { return a < b ? b : a; }
// A signed and an unsigned number are compared as unsigned ones.
#define SMEM_MIN_MAX_OF_SIGNS(T)                                                             \
  SMEM_MIN_MAX(T)                                                                            \
  SMEM_MIN_MAX(unsigned T)                                                                   \
  SMEM_MATH unsigned T min(T a, unsigned T b) { return min(static_cast<unsigned T>(a), b); } \
  SMEM_MATH unsigned T min(unsigned T a, T b) { return min(a, static_cast<unsigned T>(b)); } \
  SMEM_MATH unsigned T max(T a, unsigned T b) { return max(static_cast<unsigned T>(a), b); } \
  SMEM_MATH unsigned T max(unsigned T a, T b) { return max(a, static_cast<unsigned T>(b)); }
SMEM_MIN_MAX_OF_SIGNS(int)
SMEM_MIN_MAX_OF_SIGNS(long)
SMEM_MIN_MAX_OF_SIGNS(long long)
#undef SMEM_MIN_MAX
#undef SMEM_MIN_MAX_OF_SIGNS
SMEM_MATH float min(float a, float b) { return fminf(a, b); }
SMEM_MATH float max(float a, float b) { return fmaxf(a, b); }
SMEM_MATH double min(double a, double b) { return fmin(a, b); }
SMEM_MATH double max(double a, double b) { return fmax(a, b); }
SMEM_MATH double min(float a, double b) { return fmin(a, b); }
SMEM_MATH double min(double a, float b) { return fmin(a, b); }
SMEM_MATH double max(float a, double b) { return fmax(a, b); }
SMEM_MATH double max(double a, float b) { return fmax(a, b); }
SMEM_MATH unsigned umin(unsigned a, unsigned b) { return min(a, b); }
SMEM_MATH unsigned umax(unsigned a, unsigned b) { return max(a, b); }

// ---------------------------------------------------- functions that the C library does not have

// name(double), name(float) and namef(float).
#define SMEM_FUNCTION(name, result)                                                          \
  SMEM_MATH double name(double x) { return result; }                                         \
  SMEM_MATH float name(float x) { return static_cast<float>(name(static_cast<double>(x))); } \
  SMEM_MATH float name##f(float x) { return static_cast<float>(name(static_cast<double>(x))); }

/// The inverse of erfc: Winitzki's approximation and two steps of Halley's method.
__attribute__((noinline, const, no_sanitize("thread"))) inline double smem_erfcinv(double x) {
  if (!(x > 0 && x < 2)) return x == 0 ? INFINITY : x == 2 ? -INFINITY : NAN;
  constexpr double A = 0.147;
  const double logarithm = log(x) + log(2 - x), middle = 2 / (M_PI * A) + logarithm / 2;
  double y = copysign(sqrt(sqrt(middle * middle - logarithm / A) - middle), 1 - x);
  for (int step = 0; step < 3; ++step) {
    const double error = (erfc(y) - x) / (-M_2_SQRTPI * exp(-y * y));
    y -= error / (1 + y * error);
  }
  return y;
}

/// The inverse of erf; near 0 the step is taken on erf, because 1 - x would lose digits.
__attribute__((noinline, const, no_sanitize("thread"))) inline double smem_erfinv(double x) {
  if (fabs(x) > 0.5) return x > 0 ? smem_erfcinv(1 - x) : -smem_erfcinv(1 + x);
  double y = x / M_2_SQRTPI;
  for (int step = 0; step < 4; ++step) {
    const double error = (erf(y) - x) / (M_2_SQRTPI * exp(-y * y));
    y -= error / (1 + y * error);
  }
  return y;
}

/// exp(x * x) * erfc(x), which does not become 0.
SMEM_MATH double smem_erfcx(double x) {
  if (x < 26) return exp(x * x) * erfc(x);
  const double t = 1 / (x * x);
  return M_2_SQRTPI / 2 / x * (1 - t / 2 * (1 - 3 * t / 2 * (1 - 5 * t / 2 * (1 - 7 * t / 2))));
}

/// The modified Bessel function of the first kind: its power series, all of whose terms are
/// positive.
__attribute__((noinline, const, no_sanitize("thread"))) inline double smem_bessel_i(int order,
                                                                                    double x) {
  double term = order ? x / 2 : 1, sum = term;
  for (int k = 1; fabs(term) > fabs(sum) * 1e-17; ++k) {
    term *= x / 2 * (x / 2) / k / (k + order);
    sum += term;
  }
  return sum;
}

/// sin(pi * x), exact where x is a multiple of 1/2.
SMEM_MATH double smem_sinpi(double x) {
  const double rest = remainder(x, 2);  // -1 to 1
  const double folded = fabs(rest) > 0.5 ? copysign(1, rest) - rest : rest;
  return fabs(rest) == 1 ? copysign(0, x) : sin(M_PI * folded);
}
SMEM_MATH double smem_cospi(double x) {
  const double rest = fabs(remainder(x, 2));
  return rest == 0.5 ? 0 : rest < 0.25 ? cos(M_PI * rest) : smem_sinpi(0.5 - rest);
}

SMEM_FUNCTION(rsqrt, 1 / sqrt(x))
SMEM_FUNCTION(rcbrt, 1 / cbrt(x))
SMEM_FUNCTION(erfinv, smem_erfinv(x))
SMEM_FUNCTION(erfcinv, smem_erfcinv(x))
SMEM_FUNCTION(erfcx, smem_erfcx(x))
SMEM_FUNCTION(normcdf, 0.5 * erfc(-x * M_SQRT1_2))
SMEM_FUNCTION(normcdfinv, -M_SQRT2* smem_erfcinv(2 * x))
SMEM_FUNCTION(sinpi, smem_sinpi(x))
SMEM_FUNCTION(cospi, smem_cospi(x))
SMEM_FUNCTION(cyl_bessel_i0, smem_bessel_i(0, x))
SMEM_FUNCTION(cyl_bessel_i1, smem_bessel_i(1, x))
#undef SMEM_FUNCTION
SMEM_MATH float exp10(float x) { return exp10f(x); }
SMEM_MATH void sincos(float x, float* sine, float* cosine) { sincosf(x, sine, cosine); }
SMEM_MATH void sincospif(float x, float* sine, float* cosine) {
  *sine = sinpif(x);
  *cosine = cospif(x);
}
SMEM_MATH void sincospi(double x, double* sine, double* cosine) {
  *sine = sinpi(x);
  *cosine = cospi(x);
}
SMEM_MATH float fdividef(float a, float b) { return a / b; }

#define SMEM_NORMS(T, suffix)                                                                \
  SMEM_MATH T norm3d##suffix(T x, T y, T z) { return hypot(hypot(x, y), z); }                \
  SMEM_MATH T norm4d##suffix(T x, T y, T z, T w) { return hypot(hypot(x, y), hypot(z, w)); } \
  SMEM_MATH T norm##suffix(int n, const T* x) {                                              \
    T length = 0;                                                                            \
    for (int i = 0; i < n; ++i) length = hypot(length, x[i]);                                \
    return length;                                                                           \
  }                                                                                          \
  SMEM_MATH T rhypot##suffix(T x, T y) { return 1 / hypot(x, y); }                           \
  SMEM_MATH T rnorm3d##suffix(T x, T y, T z) { return 1 / norm3d##suffix(x, y, z); }         \
  SMEM_MATH T rnorm4d##suffix(T x, T y, T z, T w) { return 1 / norm4d##suffix(x, y, z, w); } \
  SMEM_MATH T rnorm##suffix(int n, const T* x) { return 1 / norm##suffix(n, x); }
SMEM_NORMS(float, f)
SMEM_NORMS(double, )
#undef SMEM_NORMS

// --------------------------------------------------------------- the GPU's fast approximations

SMEM_MATH float __saturatef(float x) { return fminf(fmaxf(x, 0.0f), 1.0f); }
SMEM_MATH float __fdividef(float a, float b) { return a / b; }
SMEM_MATH float __expf(float x) { return expf(x); }
SMEM_MATH float __exp10f(float x) { return exp10f(x); }
SMEM_MATH float __logf(float x) { return logf(x); }
SMEM_MATH float __log2f(float x) { return log2f(x); }
SMEM_MATH float __log10f(float x) { return log10f(x); }
SMEM_MATH float __powf(float x, float y) { return powf(x, y); }
SMEM_MATH float __sinf(float x) { return sinf(x); }
SMEM_MATH float __cosf(float x) { return cosf(x); }
SMEM_MATH float __tanf(float x) { return tanf(x); }
SMEM_MATH float __tanhf(float x) { return tanhf(x); }
SMEM_MATH void __sincosf(float x, float* sine, float* cosine) { sincosf(x, sine, cosine); }
SMEM_MATH float __frsqrt_rn(float x) {
  return static_cast<float>(1 / sqrt(static_cast<double>(x)));
}
