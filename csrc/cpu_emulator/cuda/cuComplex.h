// Stands for CUDA's header of that name: complex numbers as pairs.
#pragma once

#include <math.h>

#include "math_functions.h"
#include "vector_types.h"

using cuFloatComplex = float2;
using cuDoubleComplex = double2;
using cuComplex = cuFloatComplex;

/// The functions of one precision: cuCaddf and cuCadd, for example.
#define SMEM_COMPLEX(Complex, Real, Name, suffix, hypotenuse)                               \
  SMEM_MATH Complex make_##Name(Real x, Real y) { return {x, y}; }                          \
  SMEM_MATH Real cuCreal##suffix(Complex a) { return a.x; }                                 \
  SMEM_MATH Real cuCimag##suffix(Complex a) { return a.y; }                                 \
  SMEM_MATH Complex cuConj##suffix(Complex a) { return {a.x, -a.y}; }                       \
  SMEM_MATH Complex cuCadd##suffix(Complex a, Complex b) { return {a.x + b.x, a.y + b.y}; } \
  SMEM_MATH Complex cuCsub##suffix(Complex a, Complex b) { return {a.x - b.x, a.y - b.y}; } \
  SMEM_MATH Complex cuCmul##suffix(Complex a, Complex b) {                                  \
    return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};                                  \
  }                                                                                         \
  SMEM_MATH Complex cuCfma##suffix(Complex a, Complex b, Complex c) {                       \
    return cuCadd##suffix(cuCmul##suffix(a, b), c);                                         \
  }                                                                                         \
  SMEM_MATH Complex cuCdiv##suffix(Complex a, Complex b) {                                  \
    const Real scale = 1 / (hypotenuse(b.x, b.y) * hypotenuse(b.x, b.y));                   \
    return {(a.x * b.x + a.y * b.y) * scale, (a.y * b.x - a.x * b.y) * scale};              \
  }                                                                                         \
  SMEM_MATH Real cuCabs##suffix(Complex a) { return hypotenuse(a.x, a.y); }
SMEM_COMPLEX(cuFloatComplex, float, cuFloatComplex, f, hypotf)
SMEM_COMPLEX(cuDoubleComplex, double, cuDoubleComplex, , hypot)
#undef SMEM_COMPLEX

SMEM_MATH cuComplex make_cuComplex(float x, float y) { return {x, y}; }
SMEM_MATH cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex a) { return {a.x, a.y}; }
SMEM_MATH cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex a) {
  return {static_cast<float>(a.x), static_cast<float>(a.y)};
}
