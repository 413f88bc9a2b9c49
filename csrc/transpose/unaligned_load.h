// The loads of `unaligned`: the aligned vectors that rows of the matrix touch, to shared memory.
//
// A row that begins anywhere touches aligned vectors of 16 bytes; the first and the last of them
// also hold elements of the neighbouring rows. cp.async copies them as they are, so that each
// vector of global memory is read once and needs no register (float, W = 4; x: an element of the
// row):
//
//   global, row r      | . . x x | x x x x | x x x . |      misalignment 2
//   shared, row r      | . . x x | x x x x | x x x . |      the same offset in its first vector
//
// At the ends of the tensor a vector may be only partly readable: `copy_readable` then copies the
// elements that are (device/bounded_copy.h).
#pragma once

#include "device/bounded_copy.h"
#include "transpose/block.h"
#include "transpose/tiling.h"
#include "transpose/unaligned_tile.h"
#include "transpose/vec128.h"

namespace smem::transpose::inline SMEM_BUILD {

template <typename T>
constexpr int log2_width() {
  return log2_of(VECTOR_WIDTH<T>);
}

/// A cache line.
constexpr int LINE_BYTES = 128;

struct UnalignedParams {
  Problem problem;
  UnalignedTile tile;
  Span readable;
};

/// The number of elements between the last multiple of 128 bytes and an address.
template <typename T>
__device__ __forceinline__ int offset_in_line(const T* address) {
  return static_cast<int>(reinterpret_cast<uintptr_t>(address) % LINE_BYTES / sizeof(T));
}

/// Loads a contiguous segment: the vectors that it touches, each once. Its first element gets the
/// same offset in a line of 128 bytes in shared memory as in global memory, because a copy whose
/// sectors are split differently on both sides moves them twice.
template <typename T>
__device__ __forceinline__ void load_segment(T* shared, const T* segment, int elements,
                                             const Span& readable) {
  constexpr int W = VECTOR_WIDTH<T>;
  const int offset = offset_in_line(segment), end = (offset + elements + W - 1) & -W;
  const int begin = offset & -W, mine = begin + static_cast<int>(threadIdx.x) * W;
  const T* const from = segment - offset;
  if (reinterpret_cast<const char*>(from + begin) >= readable.begin &&
      reinterpret_cast<const char*>(from + end) <= readable.end) {
#pragma unroll 4
    for (int e = mine; e < end; e += FLAT_THREADS * W) cp_async<W>(shared + e, from + e, W);
  } else {
#pragma unroll 1
    for (int e = mine; e < end; e += FLAT_THREADS * W) {
      copy_readable(shared + e, from + e, readable);
    }
  }
}

/// The layout of a tile's rows in shared memory. Row r = W * group + residue of the tile is stored
/// as row residue * groups + group:
///
///   W = 4, 3 groups     stored row    0  1  2    3  4  5    6  7  8    9 10 11
///                       tile row      0  4  8    1  5  9    2  6 10    3  7 11
///                       residue       0  0  0    1  1  1    2  2  2    3  3  3
///
/// Rows of one residue have the same misalignment, and they are an odd number of vectors apart, so
/// that 8 of them are in 8 different groups of 4 banks. With one group the order is that of the
/// tile.
template <typename T>
struct SmemRows {
  static constexpr int W = VECTOR_WIDTH<T>;

  int pitch, groups;  ///< elements from one stored row to the next; rows of a residue
  /// The misalignment of the tile's row r is misalignment + r * misalignment_step, modulo W.
  int misalignment, misalignment_step;
  int mask = W - 1;  ///< the bits of the global address that the stored row's offset keeps

  __device__ __forceinline__ explicit SmemRows(const UnalignedTile& tile)
      : pitch(static_cast<int>(tile.pitch_vectors.by) * W),
        groups(static_cast<int>(tile.row_groups.by)) {
    misalignment = misalignment_step = 0;
  }

  /// Gives each stored row the misalignment of the row in global memory, which begins at `row` and
  /// `col`. If possible, the offset in a sector of 32 bytes is kept too, because a copy whose
  /// sectors are split differently on both sides moves them twice. That causes no bank conflict if
  /// the row stride is odd, because rows that are W apart then begin in different halves of a
  /// sector.
  __device__ __forceinline__ void keep_misalignment(const Matrix<const T>& in, int64_t row,
                                                    int64_t col) {
    const auto address = reinterpret_cast<uintptr_t>(in.data + row * in.row_stride + col);
    misalignment = static_cast<int>(address / sizeof(T) % (2 * W));
    misalignment_step = static_cast<int>(in.row_stride & (2 * W - 1));
    mask = misalignment_step % 2 != 0 ? 2 * W - 1 : W - 1;
  }
  __device__ __forceinline__ int offset_in_vector(int row) const {
    return (misalignment + row * misalignment_step) & (W - 1);
  }

  /// The offset in shared memory of a stored row, and of the first element in it.
  __device__ __forceinline__ int row_offset(int group, int residue) const {
    return (residue * groups + group) * pitch;
  }
  __device__ __forceinline__ int element_offset(int group, int residue) const {
    const int begin = row_offset(group, residue);
    return begin + ((misalignment + (group * W + residue) * misalignment_step - begin) & mask);
  }
  __device__ __forceinline__ int element_offset(int row) const {
    return groups == 1 ? element_offset(0, row) : element_offset(row / W, row % W);
  }
  /// The tile's row that is stored as row `stored_row`.
  __device__ __forceinline__ int tile_row(const UnalignedTile& tile, int stored_row) const {
    const Division found = divide(stored_row, tile.row_groups);
    return groups == 1 ? stored_row : found.rest * W + found.quotient;
  }
};

/// Loads `width` elements of each stored row, from column `col0` on: the vectors that they touch,
/// each once. Rows outside the matrix are skipped.
template <typename T>
__device__ __forceinline__ void load_rows(T* shared, const Matrix<const T>& in,
                                          const UnalignedTile& tile, const SmemRows<T>& smem_rows,
                                          const Span& readable, int64_t row0, int64_t col0,
                                          int width) {
  constexpr int W = VECTOR_WIDTH<T>;
#pragma unroll 1
  for (int v = threadIdx.x; v < tile.smem_rows * static_cast<int>(tile.pitch_vectors.by);
       v += FLAT_THREADS) {
    const Division stored = divide(v, tile.pitch_vectors);  // row, and vector in that row
    const int row = smem_rows.tile_row(tile, stored.quotient);
    const int misalignment = smem_rows.offset_in_vector(row);
    if (row0 + row < 0 || row0 + row >= in.rows || stored.rest * W >= misalignment + width) {
      continue;
    }
    copy_readable(shared + (smem_rows.element_offset(row) - misalignment + stored.rest * W),
                  in.data + (row0 + row) * in.row_stride + col0 - misalignment + stored.rest * W,
                  readable);
  }
}

/// The same for the tiles of unaligned.cu: 16 or 32 threads copy a row, one vector each. The rows
/// of a thread are a multiple of W apart, so they have the same misalignment, and each further
/// vector costs a few additions. Vectors are checked one by one only if some of the tile's vectors
/// are not wholly readable, which happens at the very ends of the tensor.
template <typename T, int THREADS>
struct TileLoader {
  static constexpr int W = VECTOR_WIDTH<T>;
  static constexpr int VECTORS_PER_ROW = max_tile_cols(sizeof(T), THREADS) / W + 1;
  static constexpr int ROWS_PER_PASS = THREADS / VECTORS_PER_ROW;
  static_assert(ROWS_PER_PASS % W == 0);

  const T* from;
  T* to;
  int64_t from_step;
  int row, to_step;
  int first_row, end_row;  ///< the rows of the tile that are in the matrix
  bool has_elements, all_readable;

  __device__ __forceinline__ TileLoader(T* shared, const Matrix<const T>& in,
                                        const UnalignedTile& tile, const SmemRows<T>& smem_rows,
                                        const Span& readable, int64_t row0, int64_t col0,
                                        int width) {
    row = static_cast<int>(threadIdx.x) / VECTORS_PER_ROW;
    const int misalignment = smem_rows.offset_in_vector(row);
    const int offset = static_cast<int>(threadIdx.x) % VECTORS_PER_ROW * W;
    const T* const begin = in.data + row0 * in.row_stride + col0;
    from = begin + row * in.row_stride - misalignment + offset;
    to = shared + (smem_rows.element_offset(row) - misalignment + offset);
    from_step = ROWS_PER_PASS * in.row_stride;
    to_step = ROWS_PER_PASS / W * smem_rows.pitch;
    first_row = row0 < 0 ? static_cast<int>(-row0) : 0;
    end_row = in.rows - row0 < tile.smem_rows ? static_cast<int>(in.rows - row0) : tile.smem_rows;
    has_elements = offset < misalignment + width;
    const T* const last = begin + (end_row - 1) * in.row_stride + width;
    all_readable = reinterpret_cast<const char*>(begin + first_row * in.row_stride - (W - 1)) >=
                       readable.begin &&
                   reinterpret_cast<const char*>(last + (W - 1)) <= readable.end;
  }

  /// Issues the copies of the next rows, up to `until`, as one group of cp.async.
  __device__ __forceinline__ void issue(int until, const Span& readable) {
    const int stop = until < end_row ? until : end_row;
    if (has_elements && all_readable) {
#pragma unroll 4
      for (; row < stop; row += ROWS_PER_PASS) {
        if (row >= first_row) cp_async<W>(to, from, W);
        from += from_step;
        to += to_step;
      }
    } else {
#pragma unroll 1
      for (; row < stop; row += ROWS_PER_PASS) {
        if (has_elements && row >= first_row) copy_readable(to, from, readable);
        from += from_step;
        to += to_step;
      }
    }
    cp_async_commit();
  }
};

/// The same for a matrix whose rows are not contiguous: element by element. `smem_rows` has no
/// misalignment then.
template <typename T>
__device__ __forceinline__ void load_elements(T* shared, const Matrix<const T>& in,
                                              const UnalignedTile& tile,
                                              const SmemRows<T>& smem_rows, int64_t row0,
                                              int64_t col0, int width) {
  for (int i = threadIdx.x; i < tile.smem_rows * width; i += static_cast<int>(blockDim.x)) {
    const int row = smem_rows.tile_row(tile, i / width), e = i % width;
    if (row0 + row < 0 || row0 + row >= in.rows) continue;
    T* const to = shared + (smem_rows.element_offset(row) + e);
    *to = in(row0 + row, col0 + e);
  }
}

}  // namespace smem::transpose::inline SMEM_BUILD
