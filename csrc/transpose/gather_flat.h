// The kernels of `gathered` for short rows that follow each other without gaps: such input is read,
// such output written, as one run.
#pragma once

#include "transpose/gather_load.h"

namespace smem::transpose {
inline namespace SMEM_BUILD {

/// The input is flat (1M x 8): a tile has whole rows, and an element of a column stands a row's
/// length behind the one before, whatever vectors they lie in.
template <typename T>
__global__ void __launch_bounds__(GATHER_THREADS)
    gather_columns_kernel(const __grid_constant__ GatherProblem arguments) {
  constexpr int W = VECTOR_WIDTH<T>, LOG2_LANES_DOWN = 3, LANES_ACROSS = 4;
  const Problem& problem = arguments.problem;
  const GatherTile& tile = arguments.tile;
  T* const shared = dynamic_shared<T>();
  const Block<T> block(problem, tile.log2_rows, tile.log2_cols, 1, tile.before * W);
  const int64_t first_row = block.row0 - tile.before * W;
  const int64_t tile_end = block.row0 + (1 << tile.log2_rows);
  const int rows =
      static_cast<int>((tile_end < problem.rows ? tile_end : problem.rows) - first_row);
  const auto cols = static_cast<int>(problem.cols);
  const T* const run = block.in.data + first_row * cols;
  load_run(shared, run, rows * cols, arguments.readable);
  const int past = elements_past_line(run);
  wait_for_copies();
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
      // Where rows W apart begin at the same place of 128 bytes, lanes side by side begin with
      // different rows, and those of all columns with one: neighbours often share a word.
      const int rotate = tile.rotate != 0 ? (low + before) & (W - 1) : 0;
      T elements[W];
      if (tile.rotate == 0) {
#pragma unroll
        for (int i = 0; i < W; ++i) elements[i] = load(from + i * cols);
      } else {
#pragma unroll
        for (int i = 0; i < W; ++i) elements[i] = load(from + ((i + rotate) & (W - 1)) * cols);
      }
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

  /// The W elements from `e` on, of columns shorter than that: one stack, where a row is a step.
  __device__ __forceinline__ void take_short(const T* shared, Element e, T (&elements)[W]) const {
    int at = column(e) + e.row * class_step;
#pragma unroll
    for (int i = 0; i < W; ++i) {
      elements[i] = load(shared + (at + past_of(e.row)));
      ++e.row;
      at += class_step;
      if (e.row == rows) {
        e = next_column(e);
        at = column(e);
      }
    }
  }

  /// The same of a flat input, where a row is a step from end to end, and of columns as long as a
  /// vector: at most one ends among the elements.
  __device__ __forceinline__ void take_flat(const T* shared, const Element& e,
                                            T (&elements)[W]) const {
    const int left = rows - e.row;
    const int here = column(e) + e.row * class_step;
    const int next = column(next_column(e)) - left * class_step;
#pragma unroll
    for (int i = 0; i < W; ++i) {
      elements[i] = load(shared + ((i < left ? here : next) + i * class_step));
    }
  }

  /// The same where at most one column ends among them. `PASTS`: rows do not all begin equally far
  /// past a vector.
  template <bool PASTS>
  __device__ __forceinline__ void take_long(const T* shared, const Element& e,
                                            T (&elements)[W]) const {
    // Elements before `left` are of this column, those before `same` of this stack.
    const int left = rows - e.row, same = W - e.row % W;
    const int here = column(e) + e.row % W * class_step + e.row / W * stack_step;
    const int next_stack = here + stack_step - W * class_step;
    const int next = column(next_column(e)) - left * class_step;
    const int past_here = past + e.row * past_step, past_next = past - left * past_step;
#pragma unroll
    for (int i = 0; i < W; ++i) {
      int place = (i >= left ? next : i >= same ? next_stack : here) + i * class_step;
      if constexpr (PASTS) {
        place += ((i >= left ? past_next : past_here) + i * past_step) & (W - 1);
      }
      elements[i] = load(shared + place);
    }
  }
};

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
    const Block<T> block(problem, tile.log2_rows, tile.log2_cols, 1);
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
  wait_for_copies();
  __syncthreads();

  for (int first = static_cast<int>(threadIdx.x) * W - elements_past_vector(out); first < count;
       first += GATHER_THREADS * W) {
    if (first >= 0 && first + W <= count) {
      const auto element = source.element(tile, first);
      T elements[W];
      if (rows < W) {
        source.take_short(shared, element, elements);
      } else if (tile.flat_in) {
        source.take_flat(shared, element, elements);
      } else if (source.past_step == 0) {
        FlatOutput<T> level = source;
        level.begin += source.past;
        level.template take_long<false>(shared, element, elements);
      } else {
        source.template take_long<true>(shared, element, elements);
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
