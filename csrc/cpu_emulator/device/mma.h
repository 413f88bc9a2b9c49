// device/mma.h for the emulator, under the same names.
#pragma once

#include "cpu_emulator/device/format.h"
#include "cpu_emulator/sm90/api.h"
#include "device/target.h"

namespace smem {
inline namespace SMEM_BUILD {

template <bool TRANSPOSE>
__device__ __forceinline__ void ldmatrix(unsigned (&fragment)[4], unsigned address) {
  smem_ldmatrix_x4(address, TRANSPOSE, fragment);
}

__device__ __forceinline__ unsigned load_word(unsigned address) {
  return *static_cast<const unsigned*>(smem_shared_pointer(address));
}

/// As on sm_90.
__device__ __forceinline__ unsigned round_to_tf32(unsigned bits) {
  return cpu_emulator::sm90::rounded_to_tf32(bits);
}

template <typename T>
__device__ __forceinline__ void mma_sync(float (&accum)[4], const unsigned (&a)[4], unsigned b0,
                                         unsigned b1) {
  constexpr int K = cpu_emulator::sm90::mma_k(FORMAT<T>);
  const unsigned b[] = {b0, b1};
  if constexpr (TARGET_HAS_SM80) {
    smem_mma_sync(FORMAT<T>, K, accum, a, b);
  } else {
    smem_mma_sync(FORMAT<T>, K / 2, accum, a, b);
    smem_mma_sync(FORMAT<T>, K / 2, accum, a + 2, b + 1);
  }
}

}  // namespace SMEM_BUILD
}  // namespace smem
