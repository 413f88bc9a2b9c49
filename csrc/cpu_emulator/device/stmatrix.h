// device/stmatrix.h for the emulator, under the same names.
#pragma once

#include "cpu_emulator/sm90/api.h"
#include "device/platform.h"

namespace smem {
inline namespace SMEM_BUILD {

__device__ __forceinline__ void stmatrix_x4(uint32_t row, uint32_t matrix0, uint32_t matrix1,
                                            uint32_t matrix2, uint32_t matrix3) {
  const uint32_t matrices[] = {matrix0, matrix1, matrix2, matrix3};
  smem_stmatrix_x4(row, matrices);
}

}  // namespace SMEM_BUILD
}  // namespace smem
