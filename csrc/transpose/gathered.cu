// gathered: for matrices whose rows begin anywhere. Whole vectors outside, elements inside.
//
// Over vectorized: neither the rows that are read nor those that are written need begin at a
// multiple of 16 bytes. A block brings the aligned vectors that its rows lie in, each once, to
// shared memory as they are (cp.async: no register, no wait, 32 KiB on their way). Then each
// thread takes an aligned vector of the output, collects its W elements one by one, and writes it.
// So each vector outside is moved once, by one thread, wherever the rows begin; the price is an
// access to shared memory an element, which even at 1 byte takes a third of the time of the bytes.
//
// A column's vectors begin n elements before a tile's first row, another n for each column. So
// that each has one writer, a tile begins earlier in each column by its n, for which a block reads
// up to a sector's worth of rows more; they come from L2.
//
// Free of conflicts: the rows with one remainder modulo W begin equally far past a vector, and
// lie an odd number of vectors apart. At each step the lanes of a warp read rows of one such class:
// 8 that follow each other, in 8 groups of 4 banks, and 4 columns, whose words differ modulo 4.
// What a lane so collects in the order of classes, it rotates by n at the end.
//
// Short rows that follow each other without gaps (1M x 8) are one run, which is read, or written,
// as if it were one row.
#include "transpose/gather_load.h"
#include "transpose/tiling.h"

namespace smem::transpose {
inline namespace SMEM_BUILD {

/// Lanes that write vectors of one column: 128 bytes.
constexpr int LOG2_LANES_DOWN = 3;
/// Columns that a warp has at once.
constexpr int LOG2_LANES_ACROSS = 2;

template <typename T>
constexpr int LOG2_WIDTH = log2_of(VECTOR_WIDTH<T>);

template <typename T, bool FLAT_IN>
__global__ void __launch_bounds__(GATHER_THREADS)
    gather_columns_kernel(const __grid_constant__ GatherProblem arguments) {
  constexpr int W = VECTOR_WIDTH<T>;
  const Problem& problem = arguments.problem;
  const GatherTile& tile = arguments.tile;
  T* const shared = dynamic_shared<T>();
  const Block<T> block(problem, tile.log2_rows, tile.log2_cols, BAND, tile.before * W);
  const int64_t first_row = block.row0 - tile.before * W;
  const int64_t cols_left = problem.cols - block.col0;
  const int width = cols_left < 1 << tile.log2_cols ? static_cast<int>(cols_left)
                                                    : 1 << tile.log2_cols;
  const bool vectors_in = problem.in_col_stride == 1 || problem.cols == 1;
  const bool vectors_out = problem.out_row_stride == 1 || problem.rows == 1;

  // Rows are W * stack + class: where in shared memory stacks, classes and elements stand.
  int stack_step, class_step, past, past_step;
  if constexpr (FLAT_IN) {
    const int64_t end = block.row0 + (1 << tile.log2_rows);
    const int rows = static_cast<int>((end < problem.rows ? end : problem.rows) - first_row);
    const auto cols = static_cast<int>(problem.cols);
    const Matrix<const T> run{block.in.data + first_row * cols, 1, int64_t{rows} * cols, 0, 1};
    load_rows(shared, run, tile, arguments.readable, 0, 0, rows * cols);
    stack_step = W * cols;
    class_step = cols;
    past = elements_past_vector(run.data);
    past_step = 0;
  } else {
    stack_step = static_cast<int>(tile.pitch.by) * W;
    class_step = static_cast<int>(tile.stacks.by) * stack_step;
    past = past_step = 0;
    if (vectors_in) {
      load_rows(shared, block.in, tile, arguments.readable, first_row, block.col0, width);
      past = elements_past_vector(block.in.data + first_row * block.in.row_stride + block.col0);
      past_step = static_cast<int>(block.in.row_stride & (W - 1));
    } else {
      load_elements(shared, block.in, tile, first_row, block.col0, width);
    }
  }
  wait_for_copies();
  __syncthreads();

  const auto class_begin = [&](int c) {
    return FLAT_IN ? past + c * class_step : c * class_step + ((past + c * past_step) & (W - 1));
  };
  int begins[W];
#pragma unroll
  for (int c = 0; c < W; ++c) begins[c] = class_begin(c);

  const int log2_down = tile.log2_rows - LOG2_WIDTH<T>;
  const int log2_low = log2_down < LOG2_LANES_DOWN ? log2_down : LOG2_LANES_DOWN;
  const int groups = (width + (1 << LOG2_LANES_ACROSS) - 1) >> LOG2_LANES_ACROSS;
  const int units = groups << (log2_down + LOG2_LANES_ACROSS);
  for (int unit = threadIdx.x; unit < units; unit += GATHER_THREADS) {
    const int high = unit >> (log2_low + LOG2_LANES_ACROSS);
    const int down = (high << log2_low & ((1 << log2_down) - 1)) | (unit & ((1 << log2_low) - 1));
    const int across = (high >> (log2_down - log2_low) << LOG2_LANES_ACROSS) |
                       (unit >> log2_low & ((1 << LOG2_LANES_ACROSS) - 1));
    if (across >= width) continue;
    T* const column = block.out.data + (block.col0 + across) * block.out.row_stride;
    // The column's vectors begin so many elements before the tile's.
    const int before = static_cast<int>(reinterpret_cast<uintptr_t>(column) / sizeof(T) &
                                        static_cast<unsigned>(tile.before * W - 1)) &
                       -(tile.before != 0);
    const int64_t first = block.row0 + down * W - before;
    if (first >= problem.rows || first + W <= 0) continue;
    const int turn = before % W;
    // Classes from `late` on are those of the stack before.
    const int stack = down + tile.before - before / W, late = W - turn;
    const int at = stack * stack_step + across;
    if (vectors_out && first >= 0 && first + W <= problem.rows) {
      T elements[W];
      const int rotate = FLAT_IN && tile.rotate != 0 ? down & (W - 1) : 0;
#pragma unroll
      for (int step = 0; step < W; ++step) {
        const int c = FLAT_IN ? (step + rotate) & (W - 1) : step;
        const int begin = FLAT_IN ? class_begin(c) : begins[step];
        elements[step] = load(shared + (begin + (c < late ? at : at - stack_step)));
      }
      store_global_vector<4>(reinterpret_cast<uint32_t*>(column + first),
                             rotated<T>(packed<T, W>(elements), (turn + rotate) & (W - 1)));
    } else {
#pragma unroll 1
      for (int i = 0; i < W; ++i) {
        if (first + i < 0 || first + i >= problem.rows) continue;
        const int c = (i - turn) & (W - 1);
        const T value = load(shared + (class_begin(c) + (c < late ? at : at - stack_step)));
        store(block.out.at(block.col0 + across, first + i), value);
      }
    }
  }
}

/// Goes through elements of shared memory in the order of a flat output.
struct Cursor {
  int at, past, row, col;         ///< `past`: of the row; at multiples of W it begins anew
  int rows, cols;                 ///< of a matrix
  int row_step, past_step, mask;  ///< in shared memory
  int next_col, next_past, next_member;

  __device__ __forceinline__ int place() const { return at + (past & mask); }
  __device__ __forceinline__ void next() {
    ++row;
    at += row_step;
    past += past_step;
    if (row == rows) {
      row = 0;
      at += next_col;
      past += next_past;
      if (++col == cols) {
        col = 0;
        at += next_member;
      }
    }
  }
};

template <typename T>
__global__ void __launch_bounds__(GATHER_THREADS)
    gather_runs_kernel(const __grid_constant__ GatherProblem arguments) {
  constexpr int W = VECTOR_WIDTH<T>;
  const Problem& problem = arguments.problem;
  const GatherTile& tile = arguments.tile;
  T* const shared = dynamic_shared<T>();
  const auto rows = static_cast<int>(problem.rows);
  T* out;
  Cursor start{};
  int elements;
  start.rows = rows;
  start.mask = W - 1;
  if (tile.flat_in) {
    // Matrices follow each other in both tensors.
    const int64_t first = int64_t{blockIdx.x} * tile.members;
    const int64_t left = problem.batch.size[0] - first;
    const auto cols = static_cast<int>(problem.cols);
    elements = static_cast<int>(left < tile.members ? left : tile.members) * rows * cols;
    const Matrix<const T> run{static_cast<const T*>(problem.in) + first * (rows * cols), 1, elements,
                              0, 1};
    out = static_cast<T*>(problem.out) + first * (rows * cols);
    load_rows(shared, run, tile, arguments.readable, 0, 0, elements);
    start.at = elements_past_vector(run.data);
    start.cols = start.row_step = cols;
    start.next_member = (rows - 1) * cols;
  } else {
    const Block<T> block(problem, tile.log2_rows, tile.log2_cols, 1);
    const int64_t cols_left = problem.cols - block.col0;
    const int width = cols_left < 1 << tile.log2_cols ? static_cast<int>(cols_left)
                                                      : 1 << tile.log2_cols;
    elements = width * rows;
    out = block.out.data + block.col0 * rows;
    if (problem.in_col_stride == 1) {
      load_rows(shared, block.in, tile, arguments.readable, 0, block.col0, width);
      start.past = elements_past_vector(block.in.data + block.col0);
      start.past_step = static_cast<int>(problem.in_row_stride & (W - 1));
    } else {
      load_elements(shared, block.in, tile, 0, block.col0, width);
    }
    start.cols = width;
    start.row_step = static_cast<int>(tile.pitch.by) * W;
  }
  start.next_col = 1 - rows * start.row_step;
  start.next_past = -rows * start.past_step;
  wait_for_copies();
  __syncthreads();

  const int before = elements_past_vector(out);
  for (int first = static_cast<int>(threadIdx.x) * W - before; first < elements;
       first += GATHER_THREADS * W) {
    const int begin = first < 0 ? 0 : first;
    const Division member = divide(begin, tile.turned_elements);
    const Division line = divide(member.rest, tile.turned_rows);
    Cursor cursor = start;
    cursor.row = line.rest;
    cursor.col = line.quotient;
    cursor.at += member.quotient * static_cast<int>(tile.turned_elements.by) +
                 line.rest * cursor.row_step + line.quotient;
    cursor.past += line.rest * cursor.past_step;
    if (first >= 0 && first + W <= elements) {
      T values[W];
#pragma unroll
      for (int i = 0; i < W; ++i) {
        values[i] = load(shared + cursor.place());
        cursor.next();
      }
      store_global_vector<4>(reinterpret_cast<uint32_t*>(out + first), packed<T, W>(values));
    } else {
#pragma unroll 1
      for (int i = begin; i < elements && i < first + W; ++i) {
        store(out + i, load(shared + cursor.place()));
        cursor.next();
      }
    }
  }
}

struct Gathered {
  static constexpr const char* NAME = "gathered";
  template <typename T>
  static constexpr auto kernel() {
    return gather_columns_kernel<T, false>;
  }
  template <typename T>
  static void run(const Problem& problem, const Device& device) {
    const GatherTile tile = gather_tile(problem, device);
    const auto start = [&](auto kernel) {
      const Geometry geometry{tile.blocks(problem), {GATHER_THREADS}, tile.shared_bytes()};
      launch(NAME, kernel, geometry, device, GatherProblem{problem, tile, readable(problem)});
    };
    if (tile.flat_out) return start(gather_runs_kernel<T>);
    if (tile.flat_in) return start(gather_columns_kernel<T, true>);
    start(kernel<T>());
  }
};

const Kernel gathered =
    make_kernel<Gathered>("16 bytes an access outside wherever rows begin, elements inside");

}  // namespace SMEM_BUILD
}  // namespace smem::transpose
