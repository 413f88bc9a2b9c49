// The table of instances: a file in instances/ for every tile, and one for floats.
#pragma once

#include "device/dtype.h"
#include "device/major.h"
#include "gemm/sm90/tile_config.h"

namespace smem::gemm::sm90 {

/// The kernel that computes TILES[INDEX] of such operands.
template <int INDEX>
const void* kernel_of(Exit exit, DType dtype, Major a, Major b);

/// That for floats, where TILES[INDEX] is for them; b lies along K.
template <int INDEX>
const void* kernel_of_floats(Exit exit, Major a);

}  // namespace smem::gemm::sm90
