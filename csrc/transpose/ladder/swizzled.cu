// swizzled: free of bank conflicts without padding, so that rows of the tile stay 16-byte vectors.
//
//   global --16 bytes--> shared, swizzled --W elements of a column--> registers --16 bytes-->
//   global
//
// Over padded: at pitch 33 no row but the first is aligned to 16 bytes, so padded moves single
// elements. Here each access to global memory, and each store to the tile, moves 16 bytes: for
// float a quarter of padded's requests.
//
// A row of the tile is 128 bytes: 8 vectors of W = 16 / sizeof(T) elements, in all 32 banks. Row r
// stores its vector v at position v ^ (r / W). For float (W = 4), the vector at each position:
//
//   position    0    1    2    3    4    5    6    7      (position p is the banks 4p to 4p + 3)
//   rows 0-3    0    1    2    3    4    5    6    7
//   rows 4-7    1    0    3    2    5    4    7    6
//   rows 8-11   2    3    0    1    6    7    4    5
//     ...
//
// Each thread collects W elements of a column for one vector of the transposed tile. In each step
// the lanes of a warp read 8 rows that are W rows apart, so vector v is at 8 different positions,
// and the 4 columns of one vector in each: 32 words in 32 banks.
//
// What may be changed safely: nothing without the others; the tile is a square of one vector per
// thread, and the XOR needs 8 vectors per row.
#include "device/vector.h"
#include "transpose/block.h"

namespace smem::transpose::inline SMEM_BUILD {

/// Vectors in a row of the tile: 128 bytes, one word of each bank.
constexpr int VECTORS_PER_ROW = 8;

/// The tile is a square, and each thread has one vector of it.
template <typename T>
constexpr int SWIZZLED_SIDE = VECTORS_PER_ROW * VECTOR_WIDTH<T>;
template <typename T>
constexpr int SWIZZLED_THREADS = VECTORS_PER_ROW * SWIZZLED_SIDE<T>;

template <typename T>
__global__ void __launch_bounds__(SWIZZLED_THREADS<T>)
    swizzled_kernel(const __grid_constant__ Problem problem) {
  constexpr int SIDE = SWIZZLED_SIDE<T>, W = VECTOR_WIDTH<T>;
  __shared__ __align__(16) T tile[SIDE][SIDE];
  const BlockTile<T> block(problem, SIDE, SIDE);
  const int vec = threadIdx.x % VECTORS_PER_ROW, line = threadIdx.x / VECTORS_PER_ROW;

  // Vector `vec` of row `line` of the tile.
  const int64_t in_row = block.row0 + line, in_col = block.col0 + vec * W;
  const T* const in = block.in.data + in_row * block.in.row_stride + in_col * block.in.col_stride;
  const int64_t in_valid = in_row < block.in.rows ? block.in.cols - in_col : 0;
  store_vector<W>(&tile[line][(vec ^ line / W) * W],
                  load_vector<W>(in, block.in.col_stride, in_valid, rows_are_vectors<W>(block.in)));
  __syncthreads();

  // Vector `vec` of row `line` of the transposed tile.
  Vector<T, W> column{};
#pragma unroll
  for (int i = 0; i < W; ++i) {
    column.lane[i] = tile[vec * W + i][(line / W ^ vec) * W + line % W];
  }
  const int64_t out_row = block.col0 + line, out_col = block.row0 + vec * W;
  T* const out = block.out.data + out_row * block.out.row_stride + out_col * block.out.col_stride;
  const int64_t out_valid = out_row < block.out.rows ? block.out.cols - out_col : 0;
  if (out_valid >= W && rows_are_vectors<W>(block.out)) {
    store_global_vector<W>(out, column);
  } else {
#pragma unroll
    for (int i = 0; i < W; ++i) {
      if (i < out_valid) out[i * block.out.col_stride] = column.lane[i];
    }
  }
}

struct Swizzled {
  static constexpr const char* NAME = "swizzled";
  template <typename T>
  static constexpr auto kernel() {
    return swizzled_kernel<T>;
  }
  template <typename T>
  static void run(const Problem& problem, const Device& device) {
    constexpr int SIDE = SWIZZLED_SIDE<T>;
    launch(NAME, kernel<T>(), one_block_per_tile(problem, SIDE, SIDE, {SWIZZLED_THREADS<T>}),
           device, problem);
  }
};

const Kernel swizzled = make_kernel<Swizzled>(
    "XOR-swizzled vectors instead of padding: no spare column, 16-byte accesses");

}  // namespace smem::transpose::inline SMEM_BUILD
