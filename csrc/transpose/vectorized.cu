// vectorized: the kernel that `auto` runs where rows begin at multiples of 16 bytes on both sides.
// Every access moves 16 bytes, whatever the element size.
//
//   global --W loads--> registers --prmt--> registers --W stores--> shared --> registers --> global
//           rows of in             columns                  columns, swizzled         rows of out
//
// 1. Each thread loads its register tile(s): W rows of 16 bytes each (W = 16 / element_bytes). All
//    loads are issued before the thread waits: 64 bytes per thread for float, 128 and 256 for
//    2-byte and 1-byte elements.
// 2. It transposes them in registers and stores W columns of 16 bytes to shared memory.
// 3. After the barrier the threads read vectors in the order of the rows of `out` and write them.
//
// Each byte passes the banks once in each direction, 16 bytes per access; `padded` and `swizzled`
// access shared memory element by element.
//
// Shared memory holds the transposed tile as vectors of 16 bytes, v = col * 2^log2_m + row / W.
// Vector v is stored at v ^ x, where x is the index of the register tile along N, modulo 8.
// Example: float, log2_m = 2 (16 rows), the first column of 8 register tiles side by side, which 8
// lanes store in one wavefront (128 bytes, so 8 vectors; bank group g is the banks 4g to 4g + 3):
//
//   register tile n        0    1    2    3    4    5    6    7
//   v = 16 n               0   16   32   48   64   80   96  112     v % 8 = 0: one bank group
//   stored at v ^ n        0   17   34   51   68   85  102  119
//   bank group (v ^ n)%8   0    1    2    3    4    5    6    7     8 bank groups: no conflict
//
// In step 3, 8 lanes read 8 consecutive vectors, whose x is the same: also 8 bank groups.
//
// Other kernels behind the same name: vectorized_cp_async.h for 1-byte elements and for narrow
// matrices of 2-byte elements, register_transpose.h for matrices of medium size. Rows that begin
// anywhere are for `unaligned`; if a user names this kernel for them, it moves single elements.
//
// What may be changed safely: the numbers of transpose/tiling.h. The swizzle of TransposedSmemTile
// must stay a permutation of the vectors of a tile.
#include "transpose/register_transpose.h"
#include "transpose/vectorized_cp_async.h"

namespace smem::transpose::inline SMEM_BUILD {

/// The transposed tile in dynamic shared memory: vectors of W elements of a column of `in`.
template <typename T>
struct TransposedSmemTile {
  T* data;
  int log2_m;  ///< log2 of the vectors per column
  /// The swizzle: vector v is stored at v ^ (v >> right_shift << left_shift & mask).
  int right_shift, left_shift;
  unsigned mask;

  static constexpr int W = VECTOR_WIDTH<T>;
  static constexpr int LOG2_W = log2_of(W);

  __device__ __forceinline__ explicit TransposedSmemTile(const VectorizedTile& tile)
      : data(dynamic_shared<T>()), log2_m(tile.log2_m) {
    const int log2_vectors = LOG2_W + tile.log2_m;  // of the W columns of a register tile
    right_shift = log2_vectors < 3 ? 3 : log2_vectors;
    left_shift = tile.log2_n < 3 ? 3 - tile.log2_n : 0;
    mask = log2_vectors < 3 ? (1u << log2_vectors) - 1 : 7;
  }

  /// The address of vector `index` of a column.
  __device__ __forceinline__ T* vector(int col, int index) const {
    const auto v = static_cast<unsigned>(col << log2_m | index);
    return data + (v ^ (v >> right_shift << left_shift & mask)) * W;
  }
  __device__ __forceinline__ T* at(int col, int row) const {
    return vector(col, row / W) + row % W;
  }
};

/// Loads the aligned vectors of a matrix. A vector that crosses the end of the last row would read
/// beyond the tensor: the last vector inside is loaded in its place, and `copy_tail` copies the
/// elements that are then missing.
template <typename T>
struct AlignedVectors {
  static constexpr int W = VECTOR_WIDTH<T>;
  const T *end, *last;

  __device__ __forceinline__ explicit AlignedVectors(const Matrix<const T>& in)
      : end(in.data + (in.rows - 1) * in.row_stride + in.cols),
        last(end - W - offset_in_vector(end)) {}
  __device__ __forceinline__ Vec128 load(const T* vector) const {
    return load_vec128(vector < last ? vector : last);
  }
};

/// Loads the W rows of a register tile. Beyond a row's end they hold the elements that follow it.
template <typename T, int W>
__device__ __forceinline__ void load_register_tile(const Matrix<const T>& in,
                                                   const AlignedVectors<T>& vectors, int64_t row,
                                                   int64_t col, Vec128 (&rows_in)[W]) {
  const T* const from = in.data + row * in.row_stride + col;
#pragma unroll
  for (int i = 0; i < W; ++i) rows_in[i] = vectors.load(from + i * in.row_stride);
}

/// Copies the last elements of a matrix, fewer than W, that are in no whole vector.
template <typename T>
__device__ __forceinline__ void copy_tail(const BlockTile<T>& block,
                                          const AlignedVectors<T>& vectors, int tile_rows,
                                          int tile_cols) {
  constexpr int W = VECTOR_WIDTH<T>;
  const Matrix<const T>& in = block.in;
  const int tail = static_cast<int>(vectors.end - vectors.last) - W;
  const bool at_end = block.row0 + tile_rows >= in.rows && block.col0 + tile_cols >= in.cols;
  if (tail == 0 || !at_end) return;
  __syncthreads();
  if (static_cast<int>(threadIdx.x) < tail) {
    const int64_t row = in.rows - 1, col = in.cols - tail + threadIdx.x;
    T* const to = block.out.at(col, row);
    *to = in(row, col);
  }
}

/// IS_ALIGNED: rows begin at multiples of 16 bytes on both sides. Otherwise single elements move.
template <typename T, bool IS_ALIGNED>
__global__ void __launch_bounds__(VECTORIZED_MAX_THREADS)
    vectorized_kernel(const __grid_constant__ VectorizedParams params) {
  constexpr int W = VECTOR_WIDTH<T>, TILES = register_tiles_per_thread(sizeof(T));
  const VectorizedTile& tile = params.tile;
  const int tile_rows = W << tile.log2_m, tile_cols = W << tile.log2_n;
  const int threads = blockDim.x;
  const TransposedSmemTile<T> smem_tile(tile);
  const BlockTile<T> block(
      params.problem, make_tile_grid(params.problem, TransposedSmemTile<T>::LOG2_W + tile.log2_m,
                                     TransposedSmemTile<T>::LOG2_W + tile.log2_n));
  const AlignedVectors<T> vectors(block.in);

  // Register tile t of the thread: its first row and column in the block's tile. Returns whether
  // that element is inside the matrix.
  const auto find_register_tile = [&](int t, int& row, int& col) {
    const int index = static_cast<int>(threadIdx.x) + t * threads;
    row = (index >> tile.log2_n) * W;
    col = (index & ((1 << tile.log2_n) - 1)) * W;
    return block.in.contains(block.row0 + row, block.col0 + col);
  };
  if constexpr (!IS_ALIGNED) {
    for (int t = 0; t < TILES; ++t) {
      int row, col;
      if (!find_register_tile(t, row, col)) continue;
#pragma unroll 4
      for (int i = 0; i < W * W; ++i) {
        const int64_t r = block.row0 + row + i / W, c = block.col0 + col + i % W;
        const T value = block.in.contains(r, c) ? block.in(r, c) : T{};
        *smem_tile.at(col + i % W, row + i / W) = value;
      }
    }
  } else {
    Vec128 rows_in[TILES][W] = {};
#pragma unroll
    for (int t = 0; t < TILES; ++t) {
      int row, col;
      if (!find_register_tile(t, row, col)) continue;
      load_register_tile(block.in, vectors, block.row0 + row, block.col0 + col, rows_in[t]);
    }
#pragma unroll
    for (int t = 0; t < TILES; ++t) {
      int row, col;
      if (!find_register_tile(t, row, col)) continue;
      Vec128 columns_out[W];
      transpose_in_registers<T>(rows_in[t], columns_out);
#pragma unroll
      for (int j = 0; j < W; ++j) store_vec128(smem_tile.vector(col + j, row / W), columns_out[j]);
    }
  }
  __syncthreads();

  const int64_t rows_left = block.in.rows - block.row0;
  const int valid_rows = rows_left < tile_rows ? static_cast<int>(rows_left) : tile_rows;
#pragma unroll 4
  for (int i = 0; i < TILES * W; ++i) {
    const int v = static_cast<int>(threadIdx.x) + i * threads;
    const int col = v >> tile.log2_m, index = v & ((1 << tile.log2_m) - 1);
    if (block.col0 + col >= block.in.cols) continue;
    const int first = index * W;
    if (IS_ALIGNED && first + W <= valid_rows) {
      T* const column = block.out.data + (block.col0 + col) * block.out.row_stride + block.row0;
      store_global_vec128(column + first, load_vec128(smem_tile.vector(col, index)));
    } else {
      for (int row = first; row < valid_rows && row < first + W; ++row) {
        T* const to = block.out.at(block.col0 + col, block.row0 + row);
        *to = *smem_tile.at(col, row);
      }
    }
  }
  if constexpr (IS_ALIGNED) copy_tail(block, vectors, tile_rows, tile_cols);
}

/// Which of the two kernels stages the tile, for elements of 1 and 2 bytes. The kernel with
/// cp.async writes columns from registers: 1-byte elements use it unless a tile's columns are
/// shorter than 64 bytes, because the other kernel has 8 lanes write consecutive vectors of several
/// columns. 2-byte elements use it only for narrow matrices, where a tile's rows are at most 32
/// bytes.
inline bool use_cp_async(const VectorizedTile& tile, size_t element_bytes) {
  return element_bytes == 1 ? tile.log2_m >= 2 : tile.log2_n <= 1;
}

struct Vectorized {
  static constexpr const char* NAME = "vectorized";
  template <typename T>
  static constexpr auto kernel() {
    return vectorized_kernel<T, true>;
  }
  template <typename T>
  static void run(const Problem& problem, const Device& device) {
    if constexpr (sizeof(T) <= 8) {
      if (use_register_transpose(problem)) {
        return launch(NAME, register_transpose_kernel<T>,
                      one_block_per_tile(problem, register_transpose_tile_rows(sizeof(T)),
                                         register_transpose_tile_cols(sizeof(T)),
                                         {REGISTER_TRANSPOSE_THREADS<T>}),
                      device, problem);
      }
    }
    const bool is_aligned = read_access(problem) == ALIGNED && write_access(problem) == ALIGNED;
    const VectorizedTile tile = vectorized_tile(problem, device);
    auto function = is_aligned ? kernel<T>() : vectorized_kernel<T, false>;
    if constexpr (sizeof(T) <= 2) {
      if (is_aligned && use_cp_async(tile, sizeof(T))) function = vectorized_cp_async_kernel<T>;
    }
    launch(
        NAME, function,
        one_block_per_tile(problem, tile.rows(sizeof(T)), tile.cols(sizeof(T)),
                           {static_cast<unsigned>(tile.threads(sizeof(T)))}, tile.bytes(sizeof(T))),
        device, VectorizedParams{.problem = problem, .tile = tile});
  }
};

const Kernel vectorized = make_kernel<Vectorized>(
    "16 bytes per access on both sides, transposed in registers, swizzled in shared memory");

}  // namespace smem::transpose::inline SMEM_BUILD
