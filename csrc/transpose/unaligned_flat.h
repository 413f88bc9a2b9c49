// The kernels of `unaligned` for short rows that follow each other without gaps: such input is read,
// such output written, as one run.
#pragma once

#include "transpose/unaligned_load.h"

namespace smem::transpose {
inline namespace SMEM_BUILD {

/// The input is flat (1M x 8): a tile has whole rows, and an element of a column stands a row's
/// length behind the one before, whatever vectors they lie in.
///
/// ROTATE: where rows W apart begin at the same place of 128 bytes, lanes side by side begin with
/// different rows, and those of all columns with one: neighbours often share a word.
template <typename T, bool ROTATE>
__global__ void __launch_bounds__(GATHER_THREADS)
    gather_columns_kernel(const __grid_constant__ GatherProblem arguments) {
  constexpr int W = VECTOR_WIDTH<T>, LOG2_LANES_DOWN = 3, LANES_ACROSS = 4;
  const Problem& problem = arguments.problem;
  const GatherTile& tile = arguments.tile;
  T* const shared = dynamic_shared<T>();
  const Block<T> block(problem, tiles_of(problem, tile.log2_rows, tile.log2_cols, tile.before * W));
  const int64_t first_row = block.row0 - tile.before * W;
  const int64_t tile_end = block.row0 + (1 << tile.log2_rows);
  const int rows =
      static_cast<int>((tile_end < problem.rows ? tile_end : problem.rows) - first_row);
  const auto cols = static_cast<int>(problem.cols);
  const T* const run = block.in.data + first_row * cols;
  load_run(shared, run, rows * cols, arguments.readable);
  const int past = elements_past_line(run);
  cp_async_wait_all();
  __syncthreads();

  // Lanes: 8 vectors of a column, 4 columns; then further vectors, then further columns.
  const int log2_vectors = tile.log2_rows - log2_width<T>();
  const int log2_low = log2_vectors < LOG2_LANES_DOWN ? log2_vectors : LOG2_LANES_DOWN;
  const bool vectors_out = problem.out_row_stride == 1 || problem.rows == 1;
  const int count = ((cols + LANES_ACROSS - 1) & -LANES_ACROSS) << log2_vectors;
  for (int number = threadIdx.x; number < count; number += GATHER_THREADS) {
    const int low = number & ((1 << log2_low) - 1), others = number >> log2_low;
    const int high = others / LANES_ACROSS, log2_high = log2_vectors - log2_low;
    const int down = low | (high & ((1 << log2_high) - 1)) << log2_low;
    const int across = (high >> log2_high) * LANES_ACROSS + others % LANES_ACROSS;
    if (across >= cols) continue;
    T* const column = block.out.data + across * block.out.row_stride;
    const int before = tile.before == 0
                           ? 0
                           : static_cast<int>(reinterpret_cast<uintptr_t>(column) / sizeof(T) %
                                              static_cast<unsigned>(SECTOR_VECTORS * W));
    const int64_t first = block.row0 + down * W - before;
    if (first >= problem.rows || first + W <= 0) continue;
    const T* const from = shared + (past + ((down + tile.before) * W - before) * cols + across);
    if (vectors_out && first >= 0 && first + W <= problem.rows) {
      const int rotate = ROTATE ? (low + before) & (W - 1) : 0;
      T elements[W];
#pragma unroll
      for (int i = 0; i < W; ++i) elements[i] = load(from + ((i + rotate) & (W - 1)) * cols);
      store_global_vector<4>(reinterpret_cast<uint32_t*>(column + first),
                             rotated<T>(packed<T, W>(elements), rotate));
    } else {
#pragma unroll 1
      for (int i = 0; i < W; ++i) {
        if (first + i < 0 || first + i >= problem.rows) continue;
        store(block.out.at(across, first + i), load(from + i * cols));
      }
    }
  }
}

/// Where the elements of a flat output stand in shared memory, in the order of its columns. Rows
/// are W * stack + class.
template <typename T>
struct FlatOutput {
  static constexpr int W = VECTOR_WIDTH<T>;

  int rows, cols;  ///< of a matrix
  int begin, class_step, stack_step, member_step;
  int past, past_step;  ///< how far past a vector rows begin, modulo W

  struct Element {
    int member, col, row;
  };
  __device__ __forceinline__ static Element element(const GatherTile& tile, int number) {
    const Division member = divide(number, tile.turned_elements);
    const Division col = divide(member.rest, tile.turned_rows);
    return {member.quotient, col.quotient, col.rest};
  }
  __device__ __forceinline__ int column(const Element& e) const {
    return begin + e.member * member_step + e.col;
  }
  __device__ __forceinline__ int past_of(int row) const {
    return (past + row * past_step) & (W - 1);
  }
  __device__ __forceinline__ int place(const Element& e) const {
    return column(e) + e.row % W * class_step + e.row / W * stack_step + past_of(e.row);
  }
  __device__ __forceinline__ Element next_column(const Element& e) const {
    return e.col + 1 < cols ? Element{e.member, e.col + 1, 0} : Element{e.member + 1, 0, 0};
  }

  /// Where the W elements from `e` on stand, whose columns follow each other.
  __device__ __forceinline__ void places(const Element& e, int (&places)[W]) const {
    int row = e.row, top = column(e);
    int at = top + row % W * class_step + row / W * stack_step;
#pragma unroll
    for (int i = 0; i < W; ++i) {
      places[i] = at + past_of(row);
      ++row;
      at += row % W != 0 ? class_step : class_step + stack_step - W * class_step;
      if (row == rows) {
        row = 0;
        at = ++top;
      }
    }
  }

  /// The W elements from `e` on, of a flat input and columns shorter than that.
  __device__ __forceinline__ void take_short(const T* shared, Element e, T (&elements)[W]) const {
    int at = column(e) + e.row * class_step;
#pragma unroll
    for (int i = 0; i < W; ++i) {
      elements[i] = load(shared + at);
      ++e.row;
      at += class_step;
      if (e.row == rows) {
        e = next_column(e);
        at = column(e);
      }
    }
  }

  /// The same of columns as long as a vector: at most one ends among the elements.
  __device__ __forceinline__ void take_long(const T* shared, const Element& e,
                                            T (&elements)[W]) const {
    const int left = rows - e.row;
    const int here = column(e) + e.row * class_step;
    const int next = column(next_column(e)) - left * class_step;
#pragma unroll
    for (int i = 0; i < W; ++i) {
      elements[i] = load(shared + ((i < left ? here : next) + i * class_step));
    }
  }
};

/// Writes a run of `count` elements. Vectors that lie a column's number of vectors apart hold the
/// same rows, W columns further: a thread takes several of those, and computes addresses for the
/// first.
template <typename T>
__device__ __forceinline__ void write_repeats(const T* shared, const FlatOutput<T>& source,
                                              const GatherTile& tile, T* out, int count) {
  constexpr int W = VECTOR_WIDTH<T>, UNROLLED = 4;
  const int skip = -elements_past_vector(out) & (W - 1), step = source.rows * W;
#pragma unroll 1
  for (int number = threadIdx.x; number < source.rows * tile.parts; number += GATHER_THREADS) {
    const Division part = divide(number, tile.turned_rows);
    const Division first = divide(skip + part.rest * W, tile.turned_rows);
    int numbers[W] = {};
    source.places({0, first.quotient, first.rest}, numbers);
    const T* places[W] = {};
#pragma unroll
    for (int i = 0; i < W; ++i)
      places[i] = shared + (numbers[i] + part.quotient * tile.repeats * W);

    int at = skip + part.rest * W + part.quotient * tile.repeats * step;
    T* to = out + at;
#pragma unroll 1
    for (int repeat = 0; repeat < tile.repeats; repeat += UNROLLED) {
#pragma unroll
      for (int i = 0; i < UNROLLED; ++i) {
        if (repeat + i >= tile.repeats || at + W > count) break;
        T elements[W];
#pragma unroll
        for (int e = 0; e < W; ++e) elements[e] = load(places[e] + i * W);
        store_global_vector<4>(reinterpret_cast<uint32_t*>(to), packed<T, W>(elements));
        to += step;
        at += step;
      }
#pragma unroll
      for (int e = 0; e < W; ++e) places[e] += UNROLLED * W;
    }
  }

  // One by one what lies before the first whole vector, and behind the last.
  const int head = skip < count ? skip : count, tail = head + ((count - head) & -W);
  const int number = threadIdx.x, at = number < head ? number : tail + (number - head);
  if (at < count && (number < head || number - head < W)) {
    store(out + at, load(shared + source.place(source.element(tile, at))));
  }
}

/// The output is flat (8 x 1M, or a batch of small matrices): a block writes one run, whose vectors
/// may begin in one column and end in the next, or in the next matrix. The input is flat as well
/// where a block has whole matrices, and rows with their padding where it has a part of one.
template <typename T>
__global__ void __launch_bounds__(GATHER_THREADS)
    gather_runs_kernel(const __grid_constant__ GatherProblem arguments) {
  constexpr int W = VECTOR_WIDTH<T>;
  const Problem& problem = arguments.problem;
  const GatherTile& tile = arguments.tile;
  T* const shared = dynamic_shared<T>();
  const auto rows = static_cast<int>(problem.rows);
  FlatOutput<T> source{rows};
  T* out;
  int count;
  if (tile.flat_in) {
    const int64_t first = int64_t{blockIdx.x} * tile.members;
    const int64_t left = problem.batch.size[0] - first;
    const auto cols = static_cast<int>(problem.cols);
    count = static_cast<int>(left < tile.members ? left : tile.members) * rows * cols;
    const T* const run = static_cast<const T*>(problem.in) + first * (rows * cols);
    out = static_cast<T*>(problem.out) + first * (rows * cols);
    load_run(shared, run, count, arguments.readable);
    source.cols = source.class_step = cols;
    source.begin = elements_past_line(run);
    source.stack_step = W * cols;
    source.member_step = rows * cols;
  } else {
    const Block<T> block(problem, tiles_of(problem, tile.log2_rows, tile.log2_cols));
    const int64_t cols_left = problem.cols - block.col0;
    const int width =
        cols_left < 1 << tile.log2_cols ? static_cast<int>(cols_left) : 1 << tile.log2_cols;
    count = width * rows;
    out = block.out.data + block.col0 * rows;
    Slots<T> slots(tile);
    if (problem.in_col_stride == 1) {
      slots.past = source.past = elements_past_vector(block.in.data + block.col0);
      slots.past_step = source.past_step = static_cast<int>(problem.in_row_stride & (W - 1));
      load_rows(shared, block.in, tile, slots, arguments.readable, 0, block.col0, width);
    } else {
      load_elements(shared, block.in, tile, slots, 0, block.col0, width);
    }
    source.cols = width;
    source.stack_step = static_cast<int>(tile.pitch.by) * W;
    source.class_step = static_cast<int>(tile.stacks.by) * source.stack_step;
  }
  cp_async_wait_all();
  __syncthreads();

  if (!tile.flat_in) return write_repeats(shared, source, tile, out, count);
  for (int first = static_cast<int>(threadIdx.x) * W - elements_past_vector(out); first < count;
       first += GATHER_THREADS * W) {
    if (first >= 0 && first + W <= count) {
      const auto element = source.element(tile, first);
      T elements[W];
      if (rows < W) {
        source.take_short(shared, element, elements);
      } else {
        source.take_long(shared, element, elements);
      }
      store_global_vector<4>(reinterpret_cast<uint32_t*>(out + first), packed<T, W>(elements));
    } else {
#pragma unroll 1
      for (int i = first < 0 ? 0 : first; i < count && i < first + W; ++i) {
        store(out + i, load(shared + source.place(source.element(tile, i))));
      }
    }
  }
}

}  // namespace SMEM_BUILD
}  // namespace smem::transpose
