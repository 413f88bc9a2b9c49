// The order of tiles that shares most of what is read from L2.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace smem::gemm {

/// Rows of tiles per swizzle band. The blocks that run at once read the fewest bytes if their tiles
/// form a square.
inline int64_t square_swizzle_size(int64_t blocks_at_once, int tile_m, int tile_n,
                                   int64_t tile_rows) {
  const double square = std::sqrt(static_cast<double>(blocks_at_once) * tile_n / tile_m);
  return std::clamp<int64_t>(std::lround(square), 1, std::max<int64_t>(tile_rows, 1));
}

}  // namespace smem::gemm
