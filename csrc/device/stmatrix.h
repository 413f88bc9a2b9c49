// stmatrix: a warp writes 8 x 8 tiles of two-byte elements from the registers in which the tensor
// cores leave them. PTX ISA, "Warp Level Matrix Instructions: stmatrix". sm_90.
#pragma once

#include "device/mbarrier.h"

namespace smem {
inline namespace SMEM_BUILD {

/// Four tiles; lane 8i + r gives the shared address of row r of tile i, 16 bytes aligned to 16.
__device__ __forceinline__ void stmatrix_x4(uint32_t row, uint32_t tile0, uint32_t tile1,
                                                 uint32_t tile2, uint32_t tile3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row),
               "r"(tile0), "r"(tile1), "r"(tile2), "r"(tile3)
               : "memory");
}

}  // namespace SMEM_BUILD
}  // namespace smem
