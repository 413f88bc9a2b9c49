// What naive, tiled and padded share: a block of 32 x 8 threads transposes a tile of 32 x 32
// elements, four elements per thread.
#pragma once

#include "transpose/block.h"

namespace smem::transpose::inline SMEM_BUILD {

constexpr int TILE = 32;
constexpr int BLOCK_ROWS = 8;  ///< rows of the tile that the block handles at once
constexpr int THREADS = TILE * BLOCK_ROWS;

/// Launches the kernel of `Implementation` (transpose/block.h) over 32 x 32 tiles.
template <typename Implementation, typename T>
void run_on_tiles(const Problem& problem, const Device& device) {
  launch(Implementation::NAME, Implementation::template kernel<T>(),
         one_block_per_tile(problem, TILE, TILE, {TILE, BLOCK_ROWS}), device, problem);
}

}  // namespace smem::transpose::inline SMEM_BUILD
