// What naive, tiled and padded share: 32 x 8 threads turn a 32 x 32 tile, four rows of it a thread.
#pragma once

#include "transpose/block.h"

namespace smem::transpose {
inline namespace SMEM_BUILD {

constexpr int TILE = 32;
constexpr int TILE_ROWS_A_STEP = 8;
constexpr int THREADS = TILE * TILE_ROWS_A_STEP;

/// Launches the kernel of a rung over 32 x 32 tiles.
template <typename Rung, typename T>
void run_on_tiles(const Problem& problem, const Device& device) {
  launch(Rung::NAME, Rung::template kernel<T>(),
         cover(problem, TILE, TILE, {TILE, TILE_ROWS_A_STEP}), device, problem);
}

}  // namespace SMEM_BUILD
}  // namespace smem::transpose
