// tiled and padded: a 32 x 32 tile is transposed through shared memory, so that global memory is
// read and written along rows only.
//
//   global --row of in--> shared --column of the tile--> global
//                                                        row of out
//
// Over naive: a warp reads a row of the tile and writes a row of the transposed tile, both as whole
// sectors. The strided access is to shared memory: a warp stores a row of the tile and reads a
// column of it. The bank of element (row, col) of a tile of floats:
//
//   pitch 32 (tiled)               pitch 33 (padded)
//            col 0  1  2  ... 31            col 0  1  2  ... 31  pad
//   row 0      0  1  2  ... 31     row 0      0  1  2  ... 31   0
//   row 1      0  1  2  ... 31     row 1      1  2  3  ...  0   1
//   row 2      0  1  2  ... 31     row 2      2  3  4  ...  1   2
//
//   column 0 is in one bank:       column 0 is in 32 banks:
//   32 wavefronts                  1 wavefront
//
// The padding costs one unused column per tile (two or four columns where an element is smaller
// than the 4 bytes of a bank).
#include "transpose/ladder/tile32.h"

namespace smem::transpose::inline SMEM_BUILD {

/// The elements of padding that move the next row by one bank.
template <typename T>
constexpr int elements_per_bank() {
  return sizeof(T) < 4 ? 4 / sizeof(T) : 1;
}

template <typename T, bool PADDED>
__global__ void __launch_bounds__(THREADS) tiled_kernel(const __grid_constant__ Problem problem) {
  __shared__ T tile[TILE][TILE + (PADDED ? elements_per_bank<T>() : 0)];
  const BlockTile<T> block(problem, TILE, TILE);
  const int tx = threadIdx.x;
  const int64_t in_col = block.col0 + tx, out_col = block.row0 + tx;
  const T* const in = block.in.data + in_col * block.in.col_stride;
  T* const out = block.out.data + out_col * block.out.col_stride;

  for (int i = threadIdx.y; i < TILE; i += BLOCK_ROWS) {
    const int64_t row = block.row0 + i;
    if (row < block.in.rows && in_col < block.in.cols) {
      tile[i][tx] = in[row * block.in.row_stride];
    }
  }
  __syncthreads();
  for (int i = threadIdx.y; i < TILE; i += BLOCK_ROWS) {
    const int64_t row = block.col0 + i;
    if (row < block.out.rows && out_col < block.out.cols) {
      out[row * block.out.row_stride] = tile[tx][i];
    }
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

const Kernel tiled =
    make_kernel<Tiled<false>>("transposed in shared memory, column reads in one bank");
const Kernel padded = make_kernel<Tiled<true>>("the same at pitch 33, free of bank conflicts");

}  // namespace smem::transpose::inline SMEM_BUILD
