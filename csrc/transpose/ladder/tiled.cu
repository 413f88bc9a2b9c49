// tiled and padded: a 32 x 32 tile is turned in shared memory, so that global memory sees rows
// only.
//
// Over naive: a warp reads a row of the tile and writes a row of the turned tile, both as whole
// sectors. The turn itself happens where it is cheap: a warp stores a row of the tile and reads a
// column of it. At pitch 32 (tiled) the 32 words of a column of floats lie in one bank, so that
// this read takes 32 turns instead of one. At pitch 33 (padded) each row begins one bank further
// and a column lies in 32 banks: no conflict, for one unused column a tile (two or four of them
// where an element is less than a bank's 4 bytes).
#include "transpose/ladder/tile32.h"

namespace smem::transpose {
inline namespace SMEM_BUILD {

/// Elements by which padding must shift a row for it to begin in another bank.
template <typename T>
constexpr int elements_of_a_bank() {
  return sizeof(T) < 4 ? 4 / sizeof(T) : 1;
}

template <typename T, bool PADDED>
__global__ void __launch_bounds__(THREADS) tiled_kernel(const __grid_constant__ Problem problem) {
  __shared__ Tile<T, TILE, TILE + (PADDED ? elements_of_a_bank<T>() : 0)> tile;
  const Block<T> block(problem, TILE, TILE);
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

template <bool PADDED>
struct Tiled {
  static constexpr const char* NAME = PADDED ? "padded" : "tiled";
  template <typename T>
  static constexpr auto kernel() {
    return tiled_kernel<T, PADDED>;
  }
  template <typename T>
  static void run(const Problem& problem, const Device& device) {
    run_on_tiles<Tiled, T>(problem, device);
  }
};

const Kernel tiled = make_kernel<Tiled<false>>("turned in shared memory, column reads in one bank");
const Kernel padded = make_kernel<Tiled<true>>("the same at pitch 33, free of bank conflicts");

}  // namespace SMEM_BUILD
}  // namespace smem::transpose
