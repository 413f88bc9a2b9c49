// The kernel of `vectorized` for 1-byte elements, and for narrow matrices of 2-byte elements.
//
//   global --cp.async--> shared --> registers --prmt--> registers --> global
//           rows of in, swizzled     register tile      columns      rows of out
//
// A register tile of 1-byte elements is 256 bytes: few threads fit on an SM if each holds that much
// in registers while its loads are in flight. Here the rows are copied to shared memory as they are
// (cp.async uses no register and does not wait; 32 KiB per block in flight). Then each thread reads
// its register tile, transposes it and writes its columns from registers; 8 lanes write 128
// contiguous bytes. The copies are contiguous however narrow the matrix is.
//
// Shared memory holds the tile as vectors of 16 bytes, v = row * 2^log2_n + col / W. Vector v is
// stored at v ^ x, where x is the index of the register tile along M, modulo 8. In the second step
// 8 lanes of a wavefront read row i of 8 register tiles below each other:
//
//   1-byte elements, log2_n = 3 (128 columns), row 0 of 8 register tiles
//   register tile m        0    1    2    3    4    5    6    7
//   v = 128 m              0  128  256  384  512  640  768  896     v % 8 = 0: one bank group
//   stored at v ^ m        0  129  258  387  516  645  774  903     8 bank groups: no conflict
//
// The copies store 8 consecutive vectors of one row, in an order permuted by the XOR: 8 bank
// groups.
//
// What may be changed safely: as in vectorized.cu.
#pragma once

#include "device/cp_async.h"
#include "transpose/block.h"
#include "transpose/tiling.h"
#include "transpose/vec128.h"

namespace smem::transpose::inline SMEM_BUILD {

struct VectorizedParams {
  Problem problem;
  VectorizedTile tile;
};

/// The tile in dynamic shared memory: vectors of W elements of a row.
template <typename T>
struct SmemTile {
  T* data;
  int log2_n;  ///< log2 of the vectors per row
  /// The swizzle: vector v of register tile m is stored at v ^ (m >> right_shift << left_shift &
  /// mask).
  int right_shift, left_shift;
  int mask;

  static constexpr int W = VECTOR_WIDTH<T>;
  static constexpr int LOG2_W = log2_of(W);

  __device__ __forceinline__ explicit SmemTile(const VectorizedTile& tile)
      : data(dynamic_shared<T>()), log2_n(tile.log2_n) {
    // The W rows of a register tile are 2^log2_vectors vectors. Where that is fewer than 8,
    // register tiles below each other begin in different banks already.
    const int log2_vectors = LOG2_W + tile.log2_n;
    right_shift = log2_vectors < 3 ? 3 - log2_vectors : 0;
    left_shift = tile.log2_m < 3 ? 3 - tile.log2_m : 0;
    mask = log2_vectors < 3 ? (1 << log2_vectors) - 1 : 7;
  }

  /// The address of vector `index` of a row.
  __device__ __forceinline__ T* vector(int row, int index) const {
    const int v = row << log2_n | index, x = row / W >> right_shift << left_shift & mask;
    return data + (v ^ x) * W;
  }
  __device__ __forceinline__ T* at(int row, int col) const {
    return vector(row, col / W) + col % W;
  }
};

/// The coordinates of a register tile in the block's tile. Up to 16 consecutive lanes have register
/// tiles below each other, whose columns they write as 256 contiguous bytes; the other lanes of the
/// warp have tiles beside them.
struct RegisterTileCoord {
  int m, n;

  __device__ __forceinline__ RegisterTileCoord(const VectorizedTile& tile, int index) {
    BitFields fields{index};
    const int log2_lanes_m = tile.log2_m < 4 ? tile.log2_m : 4;
    const int log2_lanes_n = tile.log2_n < 5 - log2_lanes_m ? tile.log2_n : 5 - log2_lanes_m;
    m = fields.take(log2_lanes_m);
    n = fields.take(log2_lanes_n);
    m |= fields.take(tile.log2_m - log2_lanes_m) << log2_lanes_m;
    n |= fields.remaining << log2_lanes_n;
  }
};

template <typename T>
__global__ void __launch_bounds__(VECTORIZED_MAX_THREADS)
    vectorized_cp_async_kernel(const __grid_constant__ VectorizedParams params) {
  constexpr int W = VECTOR_WIDTH<T>, TILES = register_tiles_per_thread(sizeof(T));
  const VectorizedTile& tile = params.tile;
  const int threads = blockDim.x;
  const SmemTile<T> smem_tile(tile);
  const BlockTile<T> block(params.problem,
                           make_tile_grid(params.problem, SmemTile<T>::LOG2_W + tile.log2_m,
                                          SmemTile<T>::LOG2_W + tile.log2_n));

#pragma unroll
  for (int i = 0; i < TILES * W; ++i) {
    const int v = static_cast<int>(threadIdx.x) + i * threads;
    const int row = v >> tile.log2_n, index = v & ((1 << tile.log2_n) - 1);
    const int64_t r = block.row0 + row, c = block.col0 + index * W;
    if (!block.in.contains(r, c)) continue;
    const int num_valid = block.in.cols - c < W ? static_cast<int>(block.in.cols - c) : W;
    cp_async<W>(smem_tile.vector(row, index), block.in.data + r * block.in.row_stride + c,
                num_valid);
  }
  cp_async_wait_all();
  __syncthreads();

#pragma unroll
  for (int t = 0; t < TILES; ++t) {
    const RegisterTileCoord coord(tile, static_cast<int>(threadIdx.x) + t * threads);
    const int row = coord.m * W, col = coord.n * W;
    const int64_t rows = block.in.rows - block.row0 - row, cols = block.in.cols - block.col0 - col;
    if (rows <= 0 || cols <= 0) continue;
    if (rows >= W) {
      Vec128 rows_in[W], columns_out[W];
#pragma unroll
      for (int i = 0; i < W; ++i) rows_in[i] = load_vec128(smem_tile.vector(row + i, coord.n));
      transpose_in_registers<T>(rows_in, columns_out);
      T* to = block.out.data + (block.col0 + col) * block.out.row_stride + block.row0 + row;
#pragma unroll
      for (int j = 0; j < W; ++j) {
        if (j < cols) store_global_vec128(to, columns_out[j]);
        to += block.out.row_stride;
      }
    } else {
#pragma unroll 1
      for (int e = 0; e < W * W; ++e) {
        const int i = e % W, j = e / W;
        if (i >= rows || j >= cols) continue;
        T* const to = block.out.at(block.col0 + col + j, block.row0 + row + i);
        *to = *smem_tile.at(row + i, col + j);
      }
    }
  }
}

}  // namespace smem::transpose::inline SMEM_BUILD
