// The kernel of `vectorized` for matrices of medium size (2 to 40 MiB): it needs no shared memory.
//
//   global --W loads of 16 bytes--> registers --prmt--> registers --W stores of 16 bytes--> global
//
// Each thread reads a register tile, W rows of 16 bytes, transposes it in its registers and writes
// W columns of 16 bytes. The register tiles of a warp (lane numbers in the cells):
//
//               128 bytes of each row, 8 register tiles along N
//             +----+----+----+--   --+----+
//             |  0 |  4 |  8 |  ...  | 28 |     A warp reads 128 contiguous bytes per row and
//   64 bytes  |  1 |  5 |  9 |  ...  | 29 |     writes 64 contiguous bytes per column; a block
//   of each   |  2 |  6 | 10 |  ...  | 30 |     writes 128 or 256, since its warps follow each
//   column    |  3 |  7 | 11 |  ...  | 31 |     other along M.
//             +----+----+----+--   --+----+
//
// There is no barrier and blocks are small, so the last blocks of the grid end together. While the
// output fits in L2 (50 MB) this is faster than tiles in shared memory; larger outputs go to DRAM,
// which needs longer contiguous segments per block.
//
// What may be changed safely: the threads of a block and the shape of a warp's register tiles
// (transpose/tiling.h).
#pragma once

#include "transpose/block.h"
#include "transpose/tiling.h"
#include "transpose/vec128.h"

namespace smem::transpose::inline SMEM_BUILD {

template <typename T>
constexpr int REGISTER_TRANSPOSE_THREADS = element_config(sizeof(T)).register_transpose_threads;

template <typename T>
__global__ void __launch_bounds__(REGISTER_TRANSPOSE_THREADS<T>)
    register_transpose_kernel(const __grid_constant__ Problem problem) {
  constexpr int W = VECTOR_WIDTH<T>;
  constexpr int LOG2_WARPS = log2_of(REGISTER_TRANSPOSE_THREADS<T> / 32);
  const BlockTile<T> block(
      problem, make_tile_grid(problem, log2_of(W) + LOG2_WARP_REGISTER_TILES_M + LOG2_WARPS,
                              log2_of(W) + LOG2_WARP_REGISTER_TILES_N));
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int tile_m =
      warp << LOG2_WARP_REGISTER_TILES_M | (lane & ((1 << LOG2_WARP_REGISTER_TILES_M) - 1));
  const int64_t row = block.row0 + tile_m * W;
  const int64_t col = block.col0 + (lane >> LOG2_WARP_REGISTER_TILES_M) * W;
  if (!block.in.contains(row, col)) return;
  if (row + W <= block.in.rows && col + W <= block.in.cols) {
    Vec128 rows_in[W], columns_out[W];
    const T* from = block.in.data + row * block.in.row_stride + col;
#pragma unroll
    for (int i = 0; i < W; ++i) rows_in[i] = load_vec128(from + i * block.in.row_stride);
    transpose_in_registers<T>(rows_in, columns_out);
    T* to = block.out.data + col * block.out.row_stride + row;
#pragma unroll
    for (int j = 0; j < W; ++j) {
      store_global_vec128(to, columns_out[j]);
      to += block.out.row_stride;
    }
  } else {
#pragma unroll 1
    for (int e = 0; e < W * W; ++e) {
      const int64_t r = row + e % W, c = col + e / W;
      if (!block.in.contains(r, c)) continue;
      T* const to = block.out.at(c, r);
      *to = block.in(r, c);
    }
  }
}

}  // namespace smem::transpose::inline SMEM_BUILD
