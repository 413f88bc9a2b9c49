// The kernels' instances: a file in instances/ for each tile's 16-bit kernels, and two for tf32.
#pragma once

#include "device/dtype.h"
#include "device/major.h"
#include "gemm/sm90/tile_config.h"

namespace smem::gemm::sm90::inline SMEM_BUILD {

/// Whether this build has the kernels of TILES[index] for a dtype and an epilogue.
constexpr bool is_built(int index, DType dtype, EpilogueKind kind) {
  const TileVariant& tile = TILES[index];
  const bool is_special = kind == EpilogueKind::tma || kind == EpilogueKind::direct;
#ifdef __CUDACC__
  return dtype == DType::f32 ? tile.has_tf32 : is_special || !tile.fallback;
#else
  const bool is_basic = dtype == DType::bf16 && kind == EpilogueKind::any;
  return !is_special && (tile.on_cpu == OnCpu::all || (tile.on_cpu == OnCpu::bf16 && is_basic));
#endif
}

/// The 16-bit kernel for TILES[INDEX]; null if it is not built.
template <int INDEX>
const void* find_kernel(EpilogueKind kind, DType dtype, Major a, Major b);

/// The tf32 kernel for TILES[INDEX]; B is K-major.
template <int INDEX>
const void* find_kernel_tf32(EpilogueKind kind, Major a);

}  // namespace smem::gemm::sm90::inline SMEM_BUILD
