// vectorized: what `auto` runs where rows begin at multiples of 16 bytes. 16 bytes an access
// everywhere, whatever the elements.
//
// Over swizzled: a thread reads W runs of 16 bytes that lie below each other (W elements a run), a
// square that it turns in its registers. It writes 16-byte runs of the turned tile to shared
// memory and reads such runs back, so each byte passes through the banks once each way, 16 bytes
// an access, where padded and swizzled read element by element. All loads of a thread are under
// way before it waits: 64 bytes for float, 128 and 256 for elements of 2 and 1 bytes.
//
// Unit u = column * (units a column) + (row / W) of the turned tile lies at place u ^ x, where x
// comes from the sub-block's column. 8 lanes, which the banks serve together, write a unit of each
// of up to 8 sub-blocks side by side: at one place without the XOR, at 8 with it. They read 8
// units in a row, whose x is the same.
//
// Bytes, and narrow matrices of small elements, come by cp.async instead (vectorized_cp_async.h), and
// matrices of middling size need no shared memory (register_transpose.h).
//
// Rows must begin at multiples of 16 bytes on both sides; `unaligned` is for all others. Asked for
// by name, this kernel takes them element by element.
#include "transpose/register_transpose.h"
#include "transpose/vectorized_cp_async.h"

namespace smem::transpose {
inline namespace SMEM_BUILD {

/// The turned tile in dynamic shared memory, in units of W elements of a column.
template <typename T>
struct TurnedTile {
  T* data;
  int log2_down;    ///< units a column
  int shift, lift;  ///< which bits of a unit's number are XORed into its place
  unsigned mask;

  static constexpr int W = VECTOR_WIDTH<T>;
  static constexpr int LOG2_W = log2_of(W);

  __device__ __forceinline__ explicit TurnedTile(const TileShape& shape)
      : data(dynamic_shared<T>()), log2_down(shape.log2_down) {
    const int log2_block_column = LOG2_W + shape.log2_down;
    shift = log2_block_column < 3 ? 3 : log2_block_column;
    lift = shape.log2_across < 3 ? 3 - shape.log2_across : 0;
    mask = log2_block_column < 3 ? (1u << log2_block_column) - 1 : 7;
  }

  __device__ __forceinline__ T* unit(int col, int number) const {
    const auto u = static_cast<unsigned>(col << log2_down | number);
    return data + (u ^ (u >> shift << lift & mask)) * W;
  }
  __device__ __forceinline__ T* at(int col, int row) const { return unit(col, row / W) + row % W; }
};

/// The vectors of a matrix that lie in it from their first byte to their last. In the place of one
/// that does not, at the end of its last row, another is read: `patch_end` makes good for it.
template <typename T>
struct Vectors {
  static constexpr int W = VECTOR_WIDTH<T>;
  const T *end, *last;

  __device__ __forceinline__ explicit Vectors(const Matrix<const T>& in)
      : end(in.data + (in.rows - 1) * in.row_stride + in.cols),
        last(end - W - elements_past_vector(end)) {}
  __device__ __forceinline__ Words at(const T* vector, Site site) const {
    return load_words(vector < last ? vector : last, site);
  }
};

/// The W rows of a sub-block, a run of 16 bytes each. Beyond a row's end they hold what follows it.
template <typename T, int W>
__device__ __forceinline__ void load_block(const Matrix<const T>& in, const Vectors<T>& vectors,
                                           int64_t row, int64_t col, Words (&runs)[W],
                                           Site site = Site::here()) {
  const T* const from = in.data + row * in.row_stride + col;
#pragma unroll
  for (int i = 0; i < W; ++i) runs[i] = vectors.at(from + i * in.row_stride, site);
}

/// Copies the last elements of a matrix, fewer than W, that lie in no whole vector.
template <typename T>
__device__ __forceinline__ void patch_end(const Block<T>& block, const Vectors<T>& vectors,
                                          int tile_rows, int tile_cols) {
  constexpr int W = VECTOR_WIDTH<T>;
  const Matrix<const T>& in = block.in;
  const int left = static_cast<int>(vectors.end - vectors.last) - W;
  const bool at_end = block.row0 + tile_rows >= in.rows && block.col0 + tile_cols >= in.cols;
  if (left == 0 || !at_end) return;
  __syncthreads();
  if (static_cast<int>(threadIdx.x) < left) {
    const int64_t row = in.rows - 1, col = in.cols - left + threadIdx.x;
    store(block.out.at(col, row), load(in.at(row, col)));
  }
}

template <typename T, bool WHOLE>
__global__ void __launch_bounds__(MAX_THREADS)
    vectorized_kernel(const __grid_constant__ VectorizedProblem arguments) {
  constexpr int W = VECTOR_WIDTH<T>, BLOCKS = blocks_a_thread(sizeof(T));
  const TileShape& shape = arguments.shape;
  const int rows = W << shape.log2_down, cols = W << shape.log2_across;
  const int threads = blockDim.x;
  const TurnedTile<T> tile(shape);
  const Block<T> block(arguments.problem,
                       tiles_of(arguments.problem, TurnedTile<T>::LOG2_W + shape.log2_down,
                                TurnedTile<T>::LOG2_W + shape.log2_across));
  const Vectors<T> vectors(block.in);

  const auto corner_of = [&](int b, int& row, int& col) {
    const int number = static_cast<int>(threadIdx.x) + b * threads;
    row = (number >> shape.log2_across) * W;
    col = (number & ((1 << shape.log2_across) - 1)) * W;
    return block.in.contains(block.row0 + row, block.col0 + col);
  };
  if constexpr (!WHOLE) {
    for (int b = 0; b < BLOCKS; ++b) {
      int row, col;
      if (!corner_of(b, row, col)) continue;
#pragma unroll 4
      for (int i = 0; i < W * W; ++i) {
        const int64_t r = block.row0 + row + i / W, c = block.col0 + col + i % W;
        const T value = block.in.contains(r, c) ? load(block.in.at(r, c)) : T{};
        store(tile.at(col + i % W, row + i / W), value);
      }
    }
  } else {
    Words runs[BLOCKS][W] = {};
#pragma unroll
    for (int b = 0; b < BLOCKS; ++b) {
      int row, col;
      if (!corner_of(b, row, col)) continue;
      load_block(block.in, vectors, block.row0 + row, block.col0 + col, runs[b]);
    }
#pragma unroll
    for (int b = 0; b < BLOCKS; ++b) {
      int row, col;
      if (!corner_of(b, row, col)) continue;
      Words turned[W];
      turn<T>(runs[b], turned);
#pragma unroll
      for (int j = 0; j < W; ++j) store_words(tile.unit(col + j, row / W), turned[j]);
    }
  }
  __syncthreads();

  const int64_t rows_left = block.in.rows - block.row0;
  const int length = rows_left < rows ? static_cast<int>(rows_left) : rows;
#pragma unroll 4
  for (int i = 0; i < BLOCKS * W; ++i) {
    const int unit = static_cast<int>(threadIdx.x) + i * threads;
    const int col = unit >> shape.log2_down, number = unit & ((1 << shape.log2_down) - 1);
    if (block.col0 + col >= block.in.cols) continue;
    const int first = number * W;
    if (WHOLE && first + W <= length) {
      T* const run = block.out.data + (block.col0 + col) * block.out.row_stride + block.row0;
      store_global_vector<4>(reinterpret_cast<uint32_t*>(run + first),
                             load_words(tile.unit(col, number)));
    } else {
      for (int row = first; row < length && row < first + W; ++row) {
        store(block.out.at(block.col0 + col, block.row0 + row), load(tile.at(col, row)));
      }
    }
  }
  if constexpr (WHOLE) patch_end(block, vectors, rows, cols);
}

/// Not where columns are so short that lanes would write pieces of them: from shared memory, 8
/// lanes write several that follow each other.
inline bool by_copies(const TileShape& shape, size_t element_bytes) {
  return element_bytes == 1 ? shape.log2_down >= 2 : shape.log2_across <= 1;
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
      if (takes_squares(problem)) {
        return launch(NAME, squares_kernel<T>,
                      cover(problem, squares_rows(sizeof(T)), squares_cols(sizeof(T)),
                            {squares_threads(sizeof(T))}),
                      device, problem);
      }
    }
    const bool whole = read_access(problem) == ALIGNED && write_access(problem) == ALIGNED;
    const TileShape shape = tile_shape(problem, device);
    auto function = whole ? kernel<T>() : vectorized_kernel<T, false>;
    if constexpr (sizeof(T) <= 2) {
      if (whole && by_copies(shape, sizeof(T))) function = vectorized_copies_kernel<T>;
    }
    launch(NAME, function,
           cover(problem, shape.rows(sizeof(T)), shape.cols(sizeof(T)),
                 {static_cast<unsigned>(shape.threads(sizeof(T)))}, shape.bytes(sizeof(T))),
           device, VectorizedProblem{problem, shape});
  }
};

const Kernel vectorized =
    make_kernel<Vectorized>("16 bytes an access on both sides, turned in registers and swizzled");

}  // namespace SMEM_BUILD
}  // namespace smem::transpose
