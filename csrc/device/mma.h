// Tensor cores by warp: ldmatrix loads fragments, mma.sync multiplies them (sm_80; sm_75 for
// float16). PTX ISA, "Warp-level matrix instructions: ldmatrix", "mma.m16n8k16" and "mma.m16n8k8".
//
// A fragment is a small matrix in the registers of the 32 lanes of a warp. It consists of 8 x 8
// matrices in the sense of ldmatrix: 8 rows of 16 bytes, which are 8 x 8 elements of 2 bytes or
// 8 x 4 floats. Each lane has one 4-byte register of each of them:
//
//             bytes 0-3   4-7   8-11  12-15
//   row 0      lane 0      1      2      3
//   row 1           4      5      6      7
//    ...
//   row 7          28     29     30     31
#pragma once

#include "device/numeric_types.h"

#ifndef __CUDACC__
#include "cpu_emulator/device/mma.h"
#else

namespace smem::inline SMEM_BUILD {

/// PTX ldmatrix.x4, or ldmatrix.x4.trans if TRANSPOSE (2-byte elements only). fragment[i] is the
/// 8 x 8 matrix whose 8 rows are at the shared memory addresses that lanes 8 * i to 8 * i + 7 pass.
template <bool TRANSPOSE>
__device__ __forceinline__ void ldmatrix(unsigned (&fragment)[4], unsigned address) {
#if __CUDA_ARCH__ >= 750
  if constexpr (TRANSPOSE) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
                 : "r"(address)
                 : "memory");
  }
#endif
}

/// PTX ld.shared.b32.
__device__ __forceinline__ unsigned load_word(unsigned address) {
  unsigned word;
  asm volatile("ld.shared.b32 %0, [%1];\n" : "=r"(word) : "r"(address) : "memory");
  return word;
}

/// PTX cvt.rn.tf32 (cvt.rna.tf32 before sm_90): rounds a float's bits to tf32's 10 bits of
/// mantissa, to nearest; ties go to even, as TMA rounds them, and before sm_90 away from zero.
/// Without it the tensor cores truncate the mantissa.
__device__ __forceinline__ unsigned round_to_tf32(unsigned bits) {
#if __CUDA_ARCH__ >= 900
  asm("cvt.rn.tf32.f32 %0, %1;\n" : "=r"(bits) : "f"(__uint_as_float(bits)));
#elif __CUDA_ARCH__ >= 800
  asm("cvt.rna.tf32.f32 %0, %1;\n" : "=r"(bits) : "f"(__uint_as_float(bits)));
#endif
  return bits;
}

/// PTX mma.sync.m16n8k16 (m16n8k8 for float, as tf32): accum += A @ B in float, with A of 16 x 16
/// and B of 16 x 8 elements (16 x 8 and 8 x 8 for tf32). Code for sm_75 has two m16n8k8 instead,
/// for half only.
///   a       the quarters of A: top left, bottom left, top right, bottom right
///   b0, b1  the two halves of B along K, each as its transpose
///   accum   lane l has row l / 4, columns l % 4 * 2 and the next, then the same of row l / 4 + 8
template <typename T>
__device__ __forceinline__ void mma_sync(float (&accum)[4], const unsigned (&a)[4], unsigned b0,
                                         unsigned b1) {
#if __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<T, float>) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(accum[0]), "+f"(accum[1]), "+f"(accum[2]), "+f"(accum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else if constexpr (std::is_same_v<T, half>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(accum[0]), "+f"(accum[1]), "+f"(accum[2]), "+f"(accum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    static_assert(std::is_same_v<T, bfloat16>, "the types that mma multiplies here");
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(accum[0]), "+f"(accum[1]), "+f"(accum[2]), "+f"(accum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
#elif __CUDA_ARCH__ >= 750
  static_assert(std::is_same_v<T, half>, "the type that tensor cores of sm_75 multiply here");
  const auto mma_k8 = [&](unsigned top, unsigned bottom, unsigned b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
        "{%0, %1, %2, %3};\n"
        : "+f"(accum[0]), "+f"(accum[1]), "+f"(accum[2]), "+f"(accum[3])
        : "r"(top), "r"(bottom), "r"(b));
  };
  mma_k8(a[0], a[1], b0);
  mma_k8(a[2], a[3], b1);
#endif
}

}  // namespace smem::inline SMEM_BUILD

#endif
