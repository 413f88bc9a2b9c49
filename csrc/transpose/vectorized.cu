// vectorized: what `auto` runs. 16 bytes an access everywhere, whatever the elements, also where
// rows begin anywhere.
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
// Where the rows of a matrix begin at no multiple of 16 bytes (8191 x 8193), a thread reads the two
// aligned vectors that its run touches, the second of which its neighbour has brought to L1, and
// shifts the run out of both. It writes the aligned vector that two of its column's units touch;
// the two ends of a column are written element by element, by the thread of the first unit.
#include "transpose/block.h"
#include "transpose/tiling.h"
#include "transpose/words.h"

namespace smem::transpose {
inline namespace SMEM_BUILD {

struct VectorizedProblem {
  Problem problem;
  TileShape shape;
};

template <typename T>
constexpr int MAX_THREADS = max_threads(sizeof(T));

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

/// The vectors that may be read of a matrix: those at multiples of 16 bytes that lie in it from
/// their first byte to their last. Others are not needed, or `patch_ends` makes good for them.
template <typename T>
struct Vectors {
  static constexpr int W = VECTOR_WIDTH<T>;
  const T *begin, *end;   ///< of the matrix
  const T *first, *last;  ///< vectors

  __device__ __forceinline__ explicit Vectors(const Matrix<const T>& in)
      : begin(in.data), end(in.data + (in.rows - 1) * in.row_stride + in.cols) {
    const int past = elements_past_vector(begin);
    first = past == 0 ? begin : begin + (W - past);
    last = end - W - elements_past_vector(end);
  }
  __device__ __forceinline__ Words at(const T* vector, Site site) const {
    vector = vector < first ? first : vector;
    return load_words(vector < last ? vector : last, site);
  }
};

/// The W rows of a sub-block, a run of 16 bytes each. Beyond a row's end they hold what follows it.
template <int ACCESS, typename T, int W>
__device__ __forceinline__ void load_block(const Matrix<const T>& in, const Vectors<T>& vectors,
                                           int64_t row, int64_t col, Words (&runs)[W],
                                           Site site = Site::here()) {
  const T* const from = in.data + row * in.row_stride + col;
#pragma unroll
  for (int i = 0; i < W; ++i) {
    const T* const run = from + i * in.row_stride;
    if constexpr (ACCESS == ALIGNED) {
      runs[i] = vectors.at(run, site);
    } else {
      const int past = elements_past_vector(run);
      runs[i] = straddling<T>(vectors.at(run - past, site), vectors.at(run - past + W, site), past);
    }
  }
}

/// Copies the elements of a tile, fewer than W at either end of the matrix, that lie in no vector.
template <typename T>
__device__ __forceinline__ void patch_ends(const Block<T>& block, const Vectors<T>& vectors,
                                           int tile_rows, int tile_cols) {
  constexpr int W = VECTOR_WIDTH<T>;
  const Matrix<const T>& in = block.in;
  const bool at_begin = block.row0 == 0 && block.col0 == 0;
  const bool at_end = block.row0 + tile_rows > in.rows - W && block.col0 + tile_cols > in.cols - W;
  if (!(at_begin && vectors.first != vectors.begin) &&
      !(at_end && vectors.last + W != vectors.end)) {
    return;
  }
  __syncthreads();
  for (int end = 0; end < 2; ++end) {
    const T* const element = (end == 0 ? vectors.begin : vectors.last + W) + threadIdx.x;
    if (element >= (end == 0 ? vectors.first : vectors.end)) continue;
    const int64_t row = (element - in.data) / in.row_stride;
    const int64_t col = element - in.data - row * in.row_stride;
    const int64_t down = row - block.row0, across = col - block.col0;
    if (down >= 0 && down < tile_rows && across >= 0 && across < tile_cols && col < in.cols) {
      store(block.out.at(col, row), load(in.at(row, col)));
    }
  }
}

template <typename T, int READ, int WRITE>
__global__ void __launch_bounds__(MAX_THREADS<T>)
    vectorized_kernel(const __grid_constant__ VectorizedProblem arguments) {
  constexpr int W = VECTOR_WIDTH<T>, BLOCKS = blocks_a_thread(sizeof(T));
  const TileShape& shape = arguments.shape;
  const int rows = W << shape.log2_down, cols = W << shape.log2_across;
  const int threads = blockDim.x;
  const TurnedTile<T> tile(shape);
  const Block<T> block(arguments.problem, TurnedTile<T>::LOG2_W + shape.log2_down,
                       TurnedTile<T>::LOG2_W + shape.log2_across, BAND);
  const Vectors<T> vectors(block.in);

  const auto corner_of = [&](int b, int& row, int& col) {
    const int number = static_cast<int>(threadIdx.x) + b * threads;
    row = (number >> shape.log2_across) * W;
    col = (number & ((1 << shape.log2_across) - 1)) * W;
    return block.in.contains(block.row0 + row, block.col0 + col);
  };
  if constexpr (READ == STRIDED) {
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
      load_block<READ>(block.in, vectors, block.row0 + row, block.col0 + col, runs[b]);
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
    T* const run = block.out.data + (block.col0 + col) * block.out.row_stride + block.row0;
    // The vector to write begins so many elements before the unit.
    const int past = WRITE == SHIFTED ? elements_past_vector(run) : 0;
    const int first = number * W - past;
    if (WRITE != STRIDED && first >= 0 && first + W <= length) {
      Words words = load_words(tile.unit(col, number));
      if constexpr (WRITE == SHIFTED) {
        // Where nothing is shifted, the unit itself once more: 8 lanes stay on 8 places.
        const int before = past == 0 ? number : number - 1;
        words = straddling<T>(load_words(tile.unit(col, before)), words, past == 0 ? 0 : W - past);
      }
      store_global_vector<4>(reinterpret_cast<uint32_t*>(run + first), words);
    } else {
      // What the first vector lacks stands before the column: the last one has too little there.
      const int end = first + W < length ? first + W : length;
      for (int e = first; e < end; ++e) {
        const int row = e < 0 ? e + rows : e;
        if (row < length) {
          store(block.out.at(block.col0 + col, block.row0 + row), load(tile.at(col, row)));
        }
      }
    }
  }
  if constexpr (READ != STRIDED) patch_ends(block, vectors, rows, cols);
}

struct Vectorized {
  static constexpr const char* NAME = "vectorized";
  template <typename T>
  static constexpr auto kernel() {
    return vectorized_kernel<T, ALIGNED, ALIGNED>;
  }
  template <typename T>
  static void run(const Problem& problem, const Device& device) {
    const int read = read_access(problem), write = write_access(problem);
    const auto start = [&](auto kernel) {
      const TileShape shape = tile_shape(problem, device);
      launch(NAME, kernel,
             cover(problem, shape.rows(sizeof(T)), shape.cols(sizeof(T)),
                   {static_cast<unsigned>(shape.threads(sizeof(T)))}, shape.bytes(sizeof(T))),
             device, VectorizedProblem{problem, shape});
    };
    if (read == STRIDED || write == STRIDED) return start(vectorized_kernel<T, STRIDED, STRIDED>);
    if (read == ALIGNED && write == ALIGNED) return start(kernel<T>());
    if constexpr (sizeof(T) < 16) {
      if (read == ALIGNED) return start(vectorized_kernel<T, ALIGNED, SHIFTED>);
      if (write == ALIGNED) return start(vectorized_kernel<T, SHIFTED, ALIGNED>);
      start(vectorized_kernel<T, SHIFTED, SHIFTED>);
    }
  }
};

const Kernel vectorized =
    make_kernel<Vectorized>("16 bytes an access on both sides, turned in registers and swizzled");

}  // namespace SMEM_BUILD
}  // namespace smem::transpose
