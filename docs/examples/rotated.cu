// rotated: a 32 x 32 tile is transposed in shared memory without conflicts and without padding.
//
// Over padded: row i of the tile is stored rotated by i columns, so element (i, j) is in column
// (i + j) mod 32. A warp that stores a row still writes 32 neighbouring words. A warp that reads a
// column finds its 32 words in 32 different columns, which are 32 different banks for elements of
// 4 bytes. The tile needs no unused column: 4096 bytes for floats instead of 4224.
#include "transpose/ladder/tile32.h"

namespace smem::transpose::inline SMEM_BUILD {

template <typename T>
__global__ void __launch_bounds__(THREADS) rotated_kernel(const __grid_constant__ Problem problem) {
  __shared__ T tile[TILE][TILE];
  const BlockTile<T> block(problem, TILE, TILE);
  const int tx = threadIdx.x;
  const int64_t in_col = block.col0 + tx, out_col = block.row0 + tx;
  const T* const in = block.in.data + in_col * block.in.col_stride;
  T* const out = block.out.data + out_col * block.out.col_stride;

  for (int i = threadIdx.y; i < TILE; i += BLOCK_ROWS) {
    const int64_t row = block.row0 + i;
    if (row < block.in.rows && in_col < block.in.cols) {
      tile[i][(tx + i) % TILE] = in[row * block.in.row_stride];
    }
  }
  __syncthreads();
  for (int i = threadIdx.y; i < TILE; i += BLOCK_ROWS) {
    const int64_t row = block.col0 + i;
    if (row < block.out.rows && out_col < block.out.cols) {
      out[row * block.out.row_stride] = tile[tx][(i + tx) % TILE];
    }
  }
}

struct Rotated {
  static constexpr const char* NAME = "rotated";
  template <typename T>
  static constexpr auto kernel() {
    return rotated_kernel<T>;
  }
  template <typename T>
  static void run(const Problem& problem, const Device& device) {
    run_on_tiles<Rotated, T>(problem, device);
  }
};

const Kernel rotated =
    make_kernel<Rotated>("rows rotated by their number: no conflict, no padding");

}  // namespace smem::transpose::inline SMEM_BUILD
