// The kernels' instances: a file in instances/ for each tile's 16-bit kernels, and two for tf32.
#pragma once

#include "device/dtype.h"
#include "device/major.h"
#include "gemm/sm90/tile_config.h"

namespace smem::gemm::sm90 {

/// The 16-bit kernel for TILES[INDEX]; null if the tile is not built for that epilogue.
template <int INDEX>
const void* find_kernel(EpilogueKind kind, DType dtype, Major a, Major b);

/// The tf32 kernel for TILES[INDEX], which has_tf32; B is K-major.
template <int INDEX>
const void* find_kernel_tf32(EpilogueKind kind, Major a);

}  // namespace smem::gemm::sm90
