// naive: each thread reads an element and writes it to its transposed position.
//
//   global --> register --> global
//
// A warp reads 32 contiguous elements of a row (4 sectors of 32 bytes, for float) and writes them
// down a column, each into a different sector: 32 sectors, and it fills an eighth of each. The
// write moves up to 8 times the bytes of the read; the caches merge a part of that.
#include "transpose/ladder/tile32.h"

namespace smem::transpose::inline SMEM_BUILD {

template <typename T>
__global__ void __launch_bounds__(THREADS) naive_kernel(const __grid_constant__ Problem problem) {
  const BlockTile<T> block(problem, TILE, TILE);
  const int64_t col = block.col0 + threadIdx.x;
  const T* const in = block.in.data + col * block.in.col_stride;
  T* const out = block.out.data + col * block.out.row_stride;  // column col of in is a row of out
  for (int i = threadIdx.y; i < TILE; i += BLOCK_ROWS) {
    const int64_t row = block.row0 + i;
    if (row < block.in.rows && col < block.in.cols) {
      out[row * block.out.col_stride] = in[row * block.in.row_stride];
    }
  }
}

struct Naive {
  static constexpr const char* NAME = "naive";
  template <typename T>
  static constexpr auto kernel() {
    return naive_kernel<T>;
  }
  template <typename T>
  static void run(const Problem& problem, const Device& device) {
    run_on_tiles<Naive, T>(problem, device);
  }
};

const Kernel naive = make_kernel<Naive>("reads rows, writes columns, no shared memory");

}  // namespace smem::transpose::inline SMEM_BUILD
