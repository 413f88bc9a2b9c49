// The kernels' instances: a file in instances/ for each tile's 16-bit kernels, and two for tf32.
#pragma once

#include <type_traits>

#include "device/dtype.h"
#include "device/major.h"
#include "gemm/sm90/tile_config.h"

namespace smem::gemm::sm90::inline SMEM_BUILD {

/// Whether this build has the kernels of TILES[index] for a dtype and an epilogue.
constexpr bool is_built(int index, DType dtype, EpilogueKind kind) {
  const TileVariant& tile = TILES[index];
  const bool is_special = kind == EpilogueKind::tma || kind == EpilogueKind::direct;
#ifdef __CUDACC__
  return (is_special || !tile.fallback) && (dtype != DType::f32 || tile.has_tf32);
#else
  const bool is_basic = dtype == DType::bf16 && kind == EpilogueKind::any;
  return !is_special && (tile.on_cpu == OnCpu::all || (tile.on_cpu == OnCpu::bf16 && is_basic));
#endif
}

/// Finds a kernel by the layouts of A and B; null if it is not built.
using FindKernel = const void*(EpilogueKind, DType, Major a, Major b);

/// The 16-bit kernels for TILES[INDEX].
template <int INDEX>
const void* find_kernel(EpilogueKind kind, DType dtype, Major a, Major b);

/// The tf32 kernels for TILES[INDEX]; B is K-major.
template <int INDEX>
const void* find_kernel_tf32(EpilogueKind kind, DType dtype, Major a, Major b);

/// Calls `f` with the kind as a std::integral_constant.
template <typename F>
const void* with_epilogue_kind(EpilogueKind kind, const F& f) {
  switch (kind) {
    case EpilogueKind::tma:
      return f(std::integral_constant<EpilogueKind, EpilogueKind::tma>{});
    case EpilogueKind::direct:
      return f(std::integral_constant<EpilogueKind, EpilogueKind::direct>{});
    case EpilogueKind::splitk_partials:
      return f(std::integral_constant<EpilogueKind, EpilogueKind::splitk_partials>{});
    default:
      return f(std::integral_constant<EpilogueKind, EpilogueKind::any>{});
  }
}

}  // namespace smem::gemm::sm90::inline SMEM_BUILD
