// The warp's way to the tensor cores: ldmatrix fills fragments, mma multiplies them (sm_80).
// PTX ISA, "Warp-level matrix instructions: ldmatrix", "mma.m16n8k16" and "mma.m16n8k8".
//
// A fragment is a small matrix that the 32 lanes of a warp hold together, each lane a register of
// 4 bytes of every part of it that has 8 rows of 16 bytes: lane l has the bytes from l % 4 * 4 on
// of row l / 4. So such a part is 8 x 8 elements of 2 bytes, or 8 x 4 floats.
#pragma once

#include "device/numeric_types.h"

#ifdef __CUDACC__

namespace smem {
inline namespace SMEM_BUILD {

/// Loads four parts: fragment[i] from the 8 rows of 16 bytes whose addresses in shared memory the
/// lanes 8 * i to 8 * i + 7 give. TURNED: 2-byte elements are transposed on the way.
template <bool TURNED>
__device__ __forceinline__ void ldmatrix(unsigned (&fragment)[4], unsigned address) {
#if __CUDA_ARCH__ >= 800
  if constexpr (TURNED) {
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

/// Four bytes of shared memory.
__device__ __forceinline__ unsigned load_word(unsigned address) {
  unsigned word;
  asm volatile("ld.shared.b32 %0, [%1];\n" : "=r"(word) : "r"(address) : "memory");
  return word;
}

/// A float's bits rounded to tf32's 10 of mantissa: to nearest, ties to even as Hopper's copy
/// engine has them, before 9.0 away from zero. Left to themselves tensor cores cut the others off.
__device__ __forceinline__ unsigned round_to_tf32(unsigned bits) {
#if __CUDA_ARCH__ >= 900
  asm("cvt.rn.tf32.f32 %0, %1;\n" : "=r"(bits) : "f"(__uint_as_float(bits)));
#elif __CUDA_ARCH__ >= 800
  asm("cvt.rna.tf32.f32 %0, %1;\n" : "=r"(bits) : "f"(__uint_as_float(bits)));
#endif
  return bits;
}

/// sums += A @ B in float, A of 16 rows, B of 8 columns; 16 along K, of floats (as tf32) 8. `a` are
/// the quarters of A: top left, bottom left, top right, bottom right. b0 and b1 are the halves of
/// B, each held as its transpose. Of the sums, lane l has (l / 4, l % 4 * 2), the one to its right,
/// and the two that lie 8 rows below.
template <typename T>
__device__ __forceinline__ void mma_sync(float (&sums)[4], const unsigned (&a)[4], unsigned b0,
                                             unsigned b1) {
#if __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<T, float>) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else if constexpr (std::is_same_v<T, half>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    static_assert(std::is_same_v<T, bfloat16>, "the types that mma multiplies here");
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
#endif
}

}  // namespace SMEM_BUILD
}  // namespace smem

#endif
