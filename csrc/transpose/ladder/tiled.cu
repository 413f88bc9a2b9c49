// tiled and padded: a 32 x 32 tile is turned in shared memory, so that global memory sees rows
// only.
//
// Over naive: a warp reads a row of the tile and writes a row of the turned tile, both as whole
// sectors. The turn itself happens where it is cheap: a warp stores a row of the tile and reads a
// column of it. At pitch 32 (tiled) the 32 words of a column of floats lie in one bank, so that
// this read takes 32 turns instead of one. At pitch 33 (padded) each row begins one bank further
// and a column lies in 32 banks: no conflict, for one unused column a tile.
#include "transpose/block.h"

namespace smem::transpose {
inline namespace SMEM_BUILD {

template <typename T, int PAD>
__global__ void __launch_bounds__(THREADS) tiled_kernel(const __grid_constant__ Problem problem) {
  __shared__ Tile<T, TILE, TILE + PAD> tile;
  const Block<T> block(problem);
  const int tx = threadIdx.x;

  for (int i = threadIdx.y; i < TILE; i += TILE_ROWS_A_STEP) {
    const int64_t row = block.row0 + i, col = block.col0 + tx;
    if (block.in.contains(row, col)) tile(i, tx) = block.in(row, col);
  }
  __syncthreads();
  for (int i = threadIdx.y; i < TILE; i += TILE_ROWS_A_STEP) {
    const int64_t row = block.row0 + tx, col = block.col0 + i;
    if (block.in.contains(row, col)) block.out(col, row) = tile(tx, i);
  }
}

template <int PAD>
struct Tiled {
  static constexpr const char* NAME = PAD == 0 ? "tiled" : "padded";
  template <typename T>
  static constexpr auto kernel() {
    return tiled_kernel<T, PAD>;
  }
};

const Kernel tiled = make_kernel<Tiled<0>>("turned in shared memory, column reads in one bank");
const Kernel padded = make_kernel<Tiled<1>>("the same at pitch 33, free of bank conflicts");

}  // namespace SMEM_BUILD
}  // namespace smem::transpose
