// The kernel of `vectorized` for matrices of middling size: no shared memory.
//
// A thread reads its square, turns it in its registers and writes it. A warp reads 128 bytes of
// each row and writes 64 bytes of each column, a block 128 or 256. There is no barrier, and blocks
// are small: threads read and write as they come, and nobody waits for a last large tile. As long
// as what is written stays in L2 (50 MB), that is all that counts; beyond, DRAM wants longer runs.
#pragma once

#include "transpose/block.h"
#include "transpose/tiling.h"
#include "transpose/vec128.h"

namespace smem::transpose {
inline namespace SMEM_BUILD {

/// Threads of a block that keeps its squares in registers: each warp has 4 squares below each other
/// and 8 side by side, 128 bytes of a row, and the warps lie below each other.
template <typename T>
constexpr int SQUARES_THREADS = squares_threads(sizeof(T));

template <typename T>
__global__ void __launch_bounds__(SQUARES_THREADS<T>)
    squares_kernel(const __grid_constant__ Problem problem) {
  constexpr int W = VECTOR_WIDTH<T>;
  constexpr int LOG2_WARPS = log2_of(SQUARES_THREADS<T> / 32);
  const Block<T> block(problem, tiles_of(problem, log2_of(W) + LOG2_SQUARES_DOWN + LOG2_WARPS,
                                         log2_of(W) + LOG2_SQUARES_ACROSS));
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t row =
      block.row0 + (warp << LOG2_SQUARES_DOWN | (lane & ((1 << LOG2_SQUARES_DOWN) - 1))) * W;
  const int64_t col = block.col0 + (lane >> LOG2_SQUARES_DOWN) * W;
  if (!block.in.contains(row, col)) return;
  if (row + W <= block.in.rows && col + W <= block.in.cols) {
    Words runs[W], turned[W];
    const T* from = block.in.data + row * block.in.row_stride + col;
#pragma unroll
    for (int i = 0; i < W; ++i) runs[i] = load_words(from + i * block.in.row_stride);
    turn<T>(runs, turned);
    T* to = block.out.data + col * block.out.row_stride + row;
#pragma unroll
    for (int j = 0; j < W; ++j) {
      store_global_vector<4>(reinterpret_cast<uint32_t*>(to), turned[j]);
      to += block.out.row_stride;
    }
  } else {
#pragma unroll 1
    for (int e = 0; e < W * W; ++e) {
      const int64_t r = row + e % W, c = col + e / W;
      if (block.in.contains(r, c)) store(block.out.at(c, r), load(block.in.at(r, c)));
    }
  }
}

}  // namespace SMEM_BUILD
}  // namespace smem::transpose
