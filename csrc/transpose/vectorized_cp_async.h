// The kernel of `vectorized` for bytes, and for narrow matrices of small elements.
//
// A square of bytes is 256 bytes: threads that hold so much in registers while they wait are few.
// Here rows come to shared memory as they are (cp.async: no register, no wait, 32 KiB a block on
// their way); then a thread takes a square, turns it and writes its columns from registers, 128
// bytes in a row by 8 lanes. And whatever the matrix' width, lanes read what lies side by side.
//
// Unit q = row * (units a row) + (column / W) of the tile lies at place q ^ x, where x comes from
// row / W. The 8 lanes that the banks serve together read a unit of each of up to 8 squares below
// each other: from one place without the XOR, from 8 with it. They copy 8 units in a row, in
// another order.
#pragma once

#include "device/cp_async.h"
#include "transpose/block.h"
#include "transpose/tiling.h"
#include "transpose/vec128.h"

namespace smem::transpose {
inline namespace SMEM_BUILD {

struct VectorizedProblem {
  Problem problem;
  TileShape shape;
};

/// The tile in dynamic shared memory, in units of W elements of a row.
template <typename T>
struct UnitTile {
  T* data;
  int log2_across;  ///< units a row
  int shift, lift;  ///< which bits of a square's row are XORed into its units' places
  int mask;

  static constexpr int W = VECTOR_WIDTH<T>;
  static constexpr int LOG2_W = log2_of(W);

  __device__ __forceinline__ explicit UnitTile(const TileShape& shape)
      : data(dynamic_shared<T>()), log2_across(shape.log2_across) {
    // Squares so many units apart begin in other banks by themselves.
    const int log2_square_row = LOG2_W + shape.log2_across;
    shift = log2_square_row < 3 ? 3 - log2_square_row : 0;
    lift = shape.log2_down < 3 ? 3 - shape.log2_down : 0;
    mask = log2_square_row < 3 ? (1 << log2_square_row) - 1 : 7;
  }

  __device__ __forceinline__ T* unit(int row, int number) const {
    const int q = row << log2_across | number, x = row / W >> shift << lift & mask;
    return data + (q ^ x) * W;
  }
  __device__ __forceinline__ T* at(int row, int col) const { return unit(row, col / W) + col % W; }
};

/// A thread's square of a tile. Lanes: up to 16 squares below each other, whose columns they write
/// 256 bytes in a row; then squares side by side.
struct Square {
  int down, across;

  __device__ __forceinline__ Square(const TileShape& shape, int number) {
    Bits bits{number};
    const int low = shape.log2_down < 4 ? shape.log2_down : 4;
    const int lanes_across = shape.log2_across < 5 - low ? shape.log2_across : 5 - low;
    down = bits.take(low);
    across = bits.take(lanes_across);
    down |= bits.take(shape.log2_down - low) << low;
    across |= bits.left << lanes_across;
  }
};

template <typename T>
__global__ void __launch_bounds__(MAX_THREADS)
    vectorized_copies_kernel(const __grid_constant__ VectorizedProblem arguments) {
  constexpr int W = VECTOR_WIDTH<T>, BLOCKS = blocks_a_thread(sizeof(T));
  const TileShape& shape = arguments.shape;
  const int threads = blockDim.x;
  const UnitTile<T> tile(shape);
  const Block<T> block(arguments.problem,
                       tiles_of(arguments.problem, UnitTile<T>::LOG2_W + shape.log2_down,
                                UnitTile<T>::LOG2_W + shape.log2_across));

#pragma unroll
  for (int i = 0; i < BLOCKS * W; ++i) {
    const int number = static_cast<int>(threadIdx.x) + i * threads;
    const int row = number >> shape.log2_across, unit = number & ((1 << shape.log2_across) - 1);
    const int64_t r = block.row0 + row, c = block.col0 + unit * W;
    if (!block.in.contains(r, c)) continue;
    const int inside = block.in.cols - c < W ? static_cast<int>(block.in.cols - c) : W;
    cp_async<W>(tile.unit(row, unit), block.in.data + r * block.in.row_stride + c, inside);
  }
  cp_async_wait_all();
  __syncthreads();

#pragma unroll
  for (int b = 0; b < BLOCKS; ++b) {
    const Square square(shape, static_cast<int>(threadIdx.x) + b * threads);
    const int row = square.down * W, col = square.across * W;
    const int64_t rows = block.in.rows - block.row0 - row, cols = block.in.cols - block.col0 - col;
    if (rows <= 0 || cols <= 0) continue;
    if (rows >= W) {
      Words runs[W], turned[W];
#pragma unroll
      for (int i = 0; i < W; ++i) runs[i] = load_words(tile.unit(row + i, square.across));
      turn<T>(runs, turned);
      T* to = block.out.data + (block.col0 + col) * block.out.row_stride + block.row0 + row;
#pragma unroll
      for (int j = 0; j < W; ++j) {
        if (j < cols) store_global_vector<4>(reinterpret_cast<uint32_t*>(to), turned[j]);
        to += block.out.row_stride;
      }
    } else {
#pragma unroll 1
      for (int e = 0; e < W * W; ++e) {
        const int i = e % W, j = e / W;
        if (i >= rows || j >= cols) continue;
        store(block.out.at(block.col0 + col + j, block.row0 + row + i),
              load(tile.at(row + i, col + j)));
      }
    }
  }
}

}  // namespace SMEM_BUILD
}  // namespace smem::transpose
