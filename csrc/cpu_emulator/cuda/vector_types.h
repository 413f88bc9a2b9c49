// CUDA's vector types: float4 and the like, with their alignment, and make_float4 and the like.
#pragma once

#include "emulator_api.h"

#define SMEM_VECTOR_TYPES(T, name, align2, align4)                   \
  struct name##1 { T x; };                                           \
  struct __attribute__((aligned(align2))) name##2 { T x, y; };       \
  struct name##3 { T x, y, z; };                                     \
  struct __attribute__((aligned(align4))) name##4 { T x, y, z, w; }; \
  SMEM_MAKE_VECTORS(T, name)

#define SMEM_MAKE_VECTORS(T, name)                                      \
  constexpr name##1 make_##name##1(T x) { return {x}; }                 \
  constexpr name##2 make_##name##2(T x, T y) { return {x, y}; }         \
  constexpr name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; } \
  constexpr name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }

SMEM_VECTOR_TYPES(signed char, char, 2, 4)
SMEM_VECTOR_TYPES(unsigned char, uchar, 2, 4)
SMEM_VECTOR_TYPES(short, short, 4, 8)
SMEM_VECTOR_TYPES(unsigned short, ushort, 4, 8)
SMEM_VECTOR_TYPES(int, int, 8, 16)
SMEM_VECTOR_TYPES(long, long, 16, 16)
SMEM_VECTOR_TYPES(unsigned long, ulong, 16, 16)
SMEM_VECTOR_TYPES(long long, longlong, 16, 16)
SMEM_VECTOR_TYPES(unsigned long long, ulonglong, 16, 16)
SMEM_VECTOR_TYPES(float, float, 8, 16)
SMEM_VECTOR_TYPES(double, double, 16, 16)

// uint3 is in emulator_api.h, for it is the type of threadIdx.
struct uint1 {
  unsigned x;
};
struct __attribute__((aligned(8))) uint2 {
  unsigned x, y;
};
struct __attribute__((aligned(16))) uint4 {
  unsigned x, y, z, w;
};
SMEM_MAKE_VECTORS(unsigned, uint)
