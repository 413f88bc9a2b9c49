// stmatrix: a warp writes 8 x 8 matrices of two-byte elements to shared memory from the registers
// in which the tensor cores leave them (device/mma.h). PTX ISA, "Warp Level Matrix Instructions:
// stmatrix". sm_90.
#pragma once

#include "device/mbarrier.h"

#ifndef __CUDACC__
#include "cpu_emulator/device/stmatrix.h"
#else

namespace smem::inline SMEM_BUILD {

/// PTX stmatrix.x4; cute::SM90_U32x4_STSM_N. Lane 8i + r passes the shared memory address of row r
/// of matrix i, 16 bytes at a multiple of 16. matrix0 to matrix3 are the lane's registers of the
/// four.
__device__ __forceinline__ void stmatrix_x4(uint32_t row, uint32_t matrix0, uint32_t matrix1,
                                            uint32_t matrix2, uint32_t matrix3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row),
               "r"(matrix0), "r"(matrix1), "r"(matrix2), "r"(matrix3)
               : "memory");
}

}  // namespace smem::inline SMEM_BUILD

#endif
