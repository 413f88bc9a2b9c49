// The kernels of `unaligned` for short contiguous rows. Such input is read, and such output is
// written, as one segment ("flat"), whose vectors may cross the ends of rows.
//
//   flat input    (1M x 8)                        unaligned_flat_input_kernel
//   flat output   (8 x 1M)                        unaligned_flat_output_kernel
//   flat both     (a batch of small matrices)     unaligned_flat_output_kernel
//
//   global --cp.async--> shared, in the order of `in` --W elements--> registers --> global
//
// The index algebra of a flat output. The elements of the segment are numbered in the order of
// `out`; element e is
//
//   matrix = e / (rows * cols)     col = e % (rows * cols) / rows     row = e % rows
//
// and its vector is e / W if the segment begins at a multiple of 16 bytes. With rows = 3 and W = 4
// ("20": row 2, column 0):
//
//   out     | 00 10 20 01 | 11 21 02 12 | 22 03 13 23 | 04 14 24 05 | 15 25 06 16 | ...
//   vector         0             1             2             3             4
//   rows       0 1 2 0       1 2 0 1       2 0 1 2       0 1 2 0       1 2 0 1
//
// Vectors that are `rows` vectors apart (0 and 3, 1 and 4) hold the same rows, W columns further
// on. So a thread that takes such vectors computes the offsets of the W elements in shared memory
// once and adds W for each further vector.
//
// The offset in shared memory of an element, with row = W * group + residue (SmemRows in
// unaligned_load.h; the flat input is the special case without padding):
//
//   begin + matrix * matrix_step + col + residue * residue_step + group * group_step
//         + the misalignment of the row
//
//                  residue_step             group_step       misalignment
//   flat input     cols                     W * cols         0
//   padded rows    groups * group_step      pitch            (first + row * step) % W
#pragma once

#include "transpose/unaligned_load.h"

namespace smem::transpose::inline SMEM_BUILD {

/// Flat input: a tile has whole rows, and the next element of a column is `cols` elements further
/// on in shared memory, whatever vectors the two are in.
///
/// ROTATE: for an even number of columns, rows that are W apart often begin in the same bank, so
/// the lanes along M would all read that bank. They begin with different rows of their vectors
/// instead, and the elements are rotated afterwards. For an odd number all lanes begin with the
/// first row, because neighbouring lanes then often read the same word.
template <typename T, bool ROTATE>
__global__ void __launch_bounds__(FLAT_THREADS)
    unaligned_flat_input_kernel(const __grid_constant__ UnalignedParams params) {
  constexpr int W = VECTOR_WIDTH<T>, LOG2_LANES_M = 3, LANES_N = 4;
  const Problem& problem = params.problem;
  const UnalignedTile& tile = params.tile;
  T* const shared = dynamic_shared<T>();
  const BlockTile<T> block(
      problem, make_tile_grid(problem, tile.log2_rows, tile.log2_cols, tile.halo_vectors * W));
  const int64_t first_row = block.row0 - tile.halo_vectors * W;
  const int64_t tile_end = block.row0 + (1 << tile.log2_rows);
  const int rows =
      static_cast<int>((tile_end < problem.rows ? tile_end : problem.rows) - first_row);
  const auto cols = static_cast<int>(problem.cols);
  const T* const segment = block.in.data + first_row * cols;
  load_segment(shared, segment, rows * cols, params.readable);
  const int begin = offset_in_line(segment);
  cp_async_wait_all();
  __syncthreads();

  // The bits of a vector's index: up to 8 vectors of a column, 4 columns (the warp); then the other
  // vectors, then the other columns.
  const int log2_vectors = tile.log2_rows - log2_width<T>();
  const int log2_lanes_m = log2_vectors < LOG2_LANES_M ? log2_vectors : LOG2_LANES_M;
  const bool contiguous_out = problem.out_row_stride == 1 || problem.rows == 1;
  const int vectors = ((cols + LANES_N - 1) & -LANES_N) << log2_vectors;
  for (int index = threadIdx.x; index < vectors; index += FLAT_THREADS) {
    const int lane_m = index & ((1 << log2_lanes_m) - 1), others = index >> log2_lanes_m;
    const int high = others / LANES_N, log2_high = log2_vectors - log2_lanes_m;
    const int vector_m = lane_m | (high & ((1 << log2_high) - 1)) << log2_lanes_m;
    const int col = (high >> log2_high) * LANES_N + others % LANES_N;
    if (col >= cols) continue;
    T* const column = block.out.data + col * block.out.row_stride;
    // As in unaligned.cu: the number of elements by which the column's vectors begin above the
    // tile's rows.
    const int lead = tile.halo_vectors == 0
                         ? 0
                         : static_cast<int>(reinterpret_cast<uintptr_t>(column) / sizeof(T) %
                                            static_cast<unsigned>(VECTORS_PER_SECTOR * W));
    const int64_t first = block.row0 + vector_m * W - lead;
    if (first >= problem.rows || first + W <= 0) continue;
    const T* const from =
        shared + (begin + ((vector_m + tile.halo_vectors) * W - lead) * cols + col);
    if (contiguous_out && first >= 0 && first + W <= problem.rows) {
      const int rotation = ROTATE ? (lane_m + lead) & (W - 1) : 0;
      T elements[W];
#pragma unroll
      for (int i = 0; i < W; ++i) elements[i] = from[((i + rotation) & (W - 1)) * cols];
      store_global_vec128(column + first, rotate_elements<T>(pack<T, W>(elements), rotation));
    } else {
#pragma unroll 1
      for (int i = 0; i < W; ++i) {
        if (first + i < 0 || first + i >= problem.rows) continue;
        T* const to = block.out.at(col, first + i);
        *to = from[i * cols];
      }
    }
  }
}

/// Where the elements of a flat output are in shared memory (the index algebra above).
template <typename T>
struct FlatOutputIndex {
  static constexpr int W = VECTOR_WIDTH<T>;

  int rows, cols;  ///< of a matrix
  int begin, residue_step, group_step, matrix_step;
  int misalignment, misalignment_step;  ///< of the first row in its vector, and per row, modulo W

  struct Element {
    int matrix, col, row;
  };
  __device__ __forceinline__ static Element element(const UnalignedTile& tile, int e) {
    const Division matrix = divide(e, tile.matrix_divmod);
    const Division col = divide(matrix.rest, tile.rows_divmod);
    return {matrix.quotient, col.quotient, col.rest};
  }
  /// The offset of an element in a row 0 without misalignment.
  __device__ __forceinline__ int column_offset(const Element& e) const {
    return begin + e.matrix * matrix_step + e.col;
  }
  __device__ __forceinline__ int row_misalignment(int row) const {
    return (misalignment + row * misalignment_step) & (W - 1);
  }
  __device__ __forceinline__ int offset(const Element& e) const {
    return column_offset(e) + e.row % W * residue_step + e.row / W * group_step +
           row_misalignment(e.row);
  }
  __device__ __forceinline__ Element next_column(const Element& e) const {
    return e.col + 1 < cols ? Element{e.matrix, e.col + 1, 0} : Element{e.matrix + 1, 0, 0};
  }

  /// The offsets of W consecutive elements from `e` on, which are in one matrix.
  __device__ __forceinline__ void offsets(const Element& e, int (&offsets)[W]) const {
    int row = e.row, column = column_offset(e);
    int at = column + row % W * residue_step + row / W * group_step;
#pragma unroll
    for (int i = 0; i < W; ++i) {
      offsets[i] = at + row_misalignment(row);
      ++row;
      at += row % W != 0 ? residue_step : residue_step + group_step - W * residue_step;
      if (row == rows) {
        row = 0;
        at = ++column;
      }
    }
  }

  /// Loads W consecutive elements from `e` on, for a flat input with fewer than W rows: any number
  /// of columns may end among the elements.
  __device__ __forceinline__ void load_short_columns(const T* shared, Element e,
                                                     T (&elements)[W]) const {
    int at = column_offset(e) + e.row * residue_step;
#pragma unroll
    for (int i = 0; i < W; ++i) {
      elements[i] = shared[at];
      ++e.row;
      at += residue_step;
      if (e.row == rows) {
        e = next_column(e);
        at = column_offset(e);
      }
    }
  }

  /// The same for a flat input with at least W rows: at most one column ends among the elements.
  __device__ __forceinline__ void load_long_columns(const T* shared, const Element& e,
                                                    T (&elements)[W]) const {
    const int rows_left = rows - e.row;
    const int here = column_offset(e) + e.row * residue_step;
    const int next = column_offset(next_column(e)) - rows_left * residue_step;
#pragma unroll
    for (int i = 0; i < W; ++i) {
      elements[i] = shared[(i < rows_left ? here : next) + i * residue_step];
    }
  }
};

/// Writes a segment of `count` elements whose columns are in one matrix. A thread takes several
/// vectors with the same rows (the picture above): for vector `index % rows` of the first `rows`
/// vectors, `vectors_per_thread` of its successors, which its thread group `index / rows` selects.
template <typename T>
__device__ __forceinline__ void write_flat_columns(const T* shared,
                                                   const FlatOutputIndex<T>& source,
                                                   const UnalignedTile& tile, T* out, int count) {
  constexpr int W = VECTOR_WIDTH<T>, UNROLLED = 4;
  // The elements before the first aligned vector, and the step from a vector to the next with the
  // same rows.
  const int head = -offset_in_vector(out) & (W - 1), step = source.rows * W;
#pragma unroll 1
  for (int index = threadIdx.x; index < source.rows * tile.thread_groups; index += FLAT_THREADS) {
    const Division group = divide(index, tile.rows_divmod);
    const Division first = divide(head + group.rest * W, tile.rows_divmod);
    int offsets[W] = {};
    source.offsets({0, first.quotient, first.rest}, offsets);
    const T* sources[W] = {};
#pragma unroll
    for (int i = 0; i < W; ++i) {
      sources[i] = shared + (offsets[i] + group.quotient * tile.vectors_per_thread * W);
    }

    int at = head + group.rest * W + group.quotient * tile.vectors_per_thread * step;
    T* to = out + at;
#pragma unroll 1
    for (int v = 0; v < tile.vectors_per_thread; v += UNROLLED) {
#pragma unroll
      for (int i = 0; i < UNROLLED; ++i) {
        if (v + i >= tile.vectors_per_thread || at + W > count) break;
        T elements[W];
#pragma unroll
        for (int e = 0; e < W; ++e) elements[e] = sources[e][i * W];
        store_global_vec128(to, pack<T, W>(elements));
        to += step;
        at += step;
      }
#pragma unroll
      for (int e = 0; e < W; ++e) sources[e] += UNROLLED * W;
    }
  }

  // Single elements before the first aligned vector, and after the last one.
  const int before = head < count ? head : count, tail = before + ((count - before) & -W);
  const int index = threadIdx.x, at = index < before ? index : tail + (index - before);
  if (at < count && (index < before || index - before < W)) {
    T* const to = out + at;
    *to = shared[source.offset(source.element(tile, at))];
  }
}

/// Flat output: a block writes one segment, whose vectors may begin in one column and end in the
/// next, or in the next matrix. The input is flat as well if a block has whole matrices, and padded
/// rows if it has a part of one.
template <typename T>
__global__ void __launch_bounds__(FLAT_THREADS)
    unaligned_flat_output_kernel(const __grid_constant__ UnalignedParams params) {
  constexpr int W = VECTOR_WIDTH<T>;
  const Problem& problem = params.problem;
  const UnalignedTile& tile = params.tile;
  T* const shared = dynamic_shared<T>();
  const auto rows = static_cast<int>(problem.rows);
  FlatOutputIndex<T> source{rows};
  T* out;
  int count;
  if (tile.flat_in) {
    const int64_t first = int64_t{blockIdx.x} * tile.matrices_per_block;
    const int64_t left = problem.batch.size[0] - first;
    const auto cols = static_cast<int>(problem.cols);
    count = static_cast<int>(left < tile.matrices_per_block ? left : tile.matrices_per_block) *
            rows * cols;
    const T* const segment = static_cast<const T*>(problem.in) + first * (rows * cols);
    out = static_cast<T*>(problem.out) + first * (rows * cols);
    load_segment(shared, segment, count, params.readable);
    source.cols = source.residue_step = cols;
    source.begin = offset_in_line(segment);
    source.group_step = W * cols;
    source.matrix_step = rows * cols;
  } else {
    const BlockTile<T> block(problem, make_tile_grid(problem, tile.log2_rows, tile.log2_cols));
    const int64_t cols_left = problem.cols - block.col0;
    const int width =
        cols_left < 1 << tile.log2_cols ? static_cast<int>(cols_left) : 1 << tile.log2_cols;
    count = width * rows;
    out = block.out.data + block.col0 * rows;
    SmemRows<T> smem_rows(tile);
    if (problem.in_col_stride == 1) {
      smem_rows.misalignment = source.misalignment = offset_in_vector(block.in.data + block.col0);
      smem_rows.misalignment_step = source.misalignment_step =
          static_cast<int>(problem.in_row_stride & (W - 1));
      load_rows(shared, block.in, tile, smem_rows, params.readable, 0, block.col0, width);
    } else {
      load_elements(shared, block.in, tile, smem_rows, 0, block.col0, width);
    }
    source.cols = width;
    source.group_step = static_cast<int>(tile.pitch_vectors.by) * W;
    source.residue_step = static_cast<int>(tile.row_groups.by) * source.group_step;
  }
  cp_async_wait_all();
  __syncthreads();

  if (!tile.flat_in) return write_flat_columns(shared, source, tile, out, count);
  for (int first = static_cast<int>(threadIdx.x) * W - offset_in_vector(out); first < count;
       first += FLAT_THREADS * W) {
    if (first >= 0 && first + W <= count) {
      const auto element = source.element(tile, first);
      T elements[W];
      if (rows < W) {
        source.load_short_columns(shared, element, elements);
      } else {
        source.load_long_columns(shared, element, elements);
      }
      store_global_vec128(out + first, pack<T, W>(elements));
    } else {
#pragma unroll 1
      for (int i = first < 0 ? 0 : first; i < count && i < first + W; ++i) {
        T* const to = out + i;
        *to = shared[source.offset(source.element(tile, i))];
      }
    }
  }
}

}  // namespace smem::transpose::inline SMEM_BUILD
