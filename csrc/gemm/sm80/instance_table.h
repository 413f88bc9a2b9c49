// The kernels' instances: mma_f16.cu, mma_bf16.cu and mma_tf32.cu compile those of one dtype each.
#pragma once

#include "device/major.h"
#include "device/numeric_types.h"
#include "gemm/sm80/params.h"
#include "gemm/sm80/tile_config.h"

namespace smem::gemm::sm80::inline SMEM_BUILD {

/// Whether this build has the kernels of TILES[tile] for a dtype.
constexpr bool is_built([[maybe_unused]] int tile, [[maybe_unused]] DType dtype) {
#ifdef __CUDACC__
  return true;
#else
  return is_on_cpu(tile, dtype);
#endif
}

template <typename T>
using MmaKernel = void (*)(MmaParams<T>);

/// The kernel of TILES[tile]; null if it is not built.
template <typename T>
MmaKernel<T> find_kernel(int tile, Major a, Major b);

}  // namespace smem::gemm::sm80::inline SMEM_BUILD
