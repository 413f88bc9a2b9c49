// The kernels of one dtype, for every tile that this build has and every layout of the operands.
#pragma once

#include "device/launch.h"
#include "gemm/sm80/instance_table.h"
#include "gemm/sm80/kernel.h"

namespace smem::gemm::sm80::inline SMEM_BUILD {

template <typename T>
constexpr DType DTYPE_OF = std::is_same_v<T, float>  ? DType::f32
                           : std::is_same_v<T, half> ? DType::f16
                                                     : DType::bf16;

template <typename T, int TILE>
MmaKernel<T> kernel_for_majors(Major a, Major b) {
  if constexpr (is_built(TILE, DTYPE_OF<T>)) {
    if constexpr (TILES[TILE].config.load == LoadMode::ldg) {
      return mma_kernel<T, TILE, true, true>;  // reads the layouts from its parameters
    } else {
      const bool a_k_major = a == Major::K, b_k_major = b == Major::K;
      return a_k_major
                 ? b_k_major ? mma_kernel<T, TILE, true, true> : mma_kernel<T, TILE, true, false>
             : b_k_major ? mma_kernel<T, TILE, false, true>
                         : mma_kernel<T, TILE, false, false>;
    }
  }
  return nullptr;
}

/// Searches the tiles from TILE on.
template <typename T, int TILE = 0>
MmaKernel<T> find_kernel_from(int tile, Major a, Major b) {
  if constexpr (TILE < TILE_COUNT) {
    return tile == TILE ? kernel_for_majors<T, TILE>(a, b)
                        : find_kernel_from<T, TILE + 1>(tile, a, b);
  }
  return nullptr;
}

template <typename T>
MmaKernel<T> find_kernel(int tile, Major a, Major b) {
  return find_kernel_from<T>(tile, a, b);
}

}  // namespace smem::gemm::sm80::inline SMEM_BUILD
