// An operand's tile for tensor cores: its layout in shared memory, the copy from global memory in
// any layout of the operand, and the warp's reads of fragments.
//
// X(mn, k) is an operand with its M or N dimension first: A itself, or B transposed. A vec16 is a
// vector of 16 bytes, 8 elements of half precision or 4 floats: a thread copies one at once, and
// ldmatrix reads one as a row.
#pragma once

#include "device/cp_async.h"
#include "device/mma.h"
#include "device/opaque.h"

namespace smem::gemm::inline SMEM_BUILD {

/// The layout of MN x DEPTH elements X(mn, k) in shared memory, which is that of global memory:
/// rows along k if K_MAJOR, else rows along mn. The vec16s of a row are permuted (swizzled) by XOR
/// with the row. ldmatrix reads 8 vec16s below one another at once, and cp.async writes 8 vec16s of
/// a row at once; the swizzle spreads both over all 32 banks.
///
/// ldmatrix cannot transpose 4-byte elements. An MN-major tile of floats is read by single words
/// instead, 8 along mn of 4 rows per warp. There the swizzle permutes pairs of vec16s, so that the
/// pairs of the 4 rows cover all banks.
template <typename T, bool K_MAJOR_, int MN_, int DEPTH_>
struct SmemLayout {
  using Element = T;
  static constexpr bool K_MAJOR = K_MAJOR_;
  static constexpr int MN = MN_, DEPTH = DEPTH_;
  static constexpr int ROWS = K_MAJOR ? MN : DEPTH, COLS = K_MAJOR ? DEPTH : MN;
  static constexpr int ELEMENTS = ROWS * COLS;
  static constexpr int VEC = VECTOR_WIDTH<T>;  ///< elements of a vec16
  static constexpr int VECS_PER_ROW = COLS / VEC;
  static constexpr int SWIZZLE_VECS = VECS_PER_ROW < 8 ? VECS_PER_ROW : 8;
  static constexpr int ROWS_PER_LINE = 8 / SWIZZLE_VECS;  ///< a line is 128 bytes: all 32 banks
  static constexpr bool READ_BY_WORD = !K_MAJOR && sizeof(T) == 4;
  static constexpr int SWIZZLE_UNIT = READ_BY_WORD ? 2 : 1;  ///< vec16s that move together
  static constexpr int SWIZZLE_PERIOD = ROWS_PER_LINE * SWIZZLE_VECS / SWIZZLE_UNIT;  ///< in rows

  static_assert(MN % 16 == 0 && DEPTH % (2 * VEC) == 0, "fragments are 16 x 2 vec16s");
  static_assert((VECS_PER_ROW & (VECS_PER_ROW - 1)) == 0, "the swizzle is an exclusive or");

  __device__ __forceinline__ static unsigned swizzle(unsigned row) {
    return row % SWIZZLE_PERIOD / ROWS_PER_LINE * SWIZZLE_UNIT;
  }
  __device__ __forceinline__ static int offset(int row, int vec) {
    return row * COLS + VEC * (vec ^ swizzle(row));
  }
};

/// The widest copy, in bytes, that the rows of X allow: 16, 8 or 4, or 0 for single elements.
template <typename T>
__device__ __forceinline__ int widest_copy(const Matrix<const T>& X) {
  constexpr int S = sizeof(T);
  return rows_are_vectors<16 / S>(X)  ? 16
         : rows_are_vectors<8 / S>(X) ? 8
         : rows_are_vectors<4 / S>(X) ? 4
                                      : 0;
}

/// Copies an operand's tiles, in the order of K, into shared memory, with zeros outside X.
template <typename Layout, int THREADS>
class TileLoader {
  using T = typename Layout::Element;
  static constexpr int VEC = Layout::VEC;
  static constexpr int VECS_PER_ROW = Layout::VECS_PER_ROW;
  static constexpr int STEP = THREADS / VECS_PER_ROW;  ///< rows between a thread's vec16s
  static constexpr int PASSES = Layout::ROWS / STEP;

  static_assert(THREADS % VECS_PER_ROW == 0 && Layout::ROWS % STEP == 0,
                "all threads copy equally many vec16s");
  static_assert(STEP % Layout::SWIZZLE_PERIOD == 0, "a thread's vec16s have the same swizzle");

 public:
  /// The tiles of X(mn, k) begin at row mn0.
  __device__ __forceinline__ TileLoader(const Matrix<const T>& X, int64_t mn0) {
    const Matrix<const T> Y = Layout::K_MAJOR ? X : X.transposed();
    row_stride_ = Y.rows > 1 ? Y.row_stride : 0;
    col_stride_ = Y.col_stride;
    copy_bytes_ = widest_copy<T>({Y.data, Y.rows, Y.cols, row_stride_, col_stride_});
    valid_mn_ = static_cast<int>(min(X.rows - mn0, int64_t{Layout::MN}));
    k_remaining_ = X.cols;
    from_ = Y.data + (Layout::K_MAJOR ? mn0 + row() : row()) * row_stride_ +
            (Layout::K_MAJOR ? col() : mn0 + col()) * col_stride_;
    smem_offset_ = Layout::offset(row(), col() / VEC);
  }

  /// Starts the copy of the next tile. The tile is complete after a wait for the copies and a
  /// barrier.
  __device__ __forceinline__ void next(T* tile) {
    if (copy_bytes_ == 16 && valid_mn_ == Layout::MN && k_remaining_ >= Layout::DEPTH) {
#pragma unroll
      for (int pass = 0; pass < PASSES; ++pass) {
        cp_async<VEC>(destination(tile, pass), from_ + pass * STEP * row_stride_, VEC);
      }
    } else if (copy_bytes_ == 16) {
      copy_at_edge<16>(tile);
    } else if (copy_bytes_ == 8) {
      copy_at_edge<8>(tile);
    } else if (copy_bytes_ == 4) {
      copy_at_edge<4>(tile);
    } else {
      copy_at_edge<0>(tile);
    }
    from_ += Layout::DEPTH * (Layout::K_MAJOR ? col_stride_ : row_stride_);
    opaque(from_);
    k_remaining_ -= Layout::DEPTH;
  }

 private:
  // The divisions are unsigned so that they compile to shifts.
  __device__ __forceinline__ static int row() {
    return static_cast<int>(threadIdx.x / VECS_PER_ROW);
  }
  __device__ __forceinline__ static int col() {
    return static_cast<int>(threadIdx.x % VECS_PER_ROW * VEC);
  }
  __device__ __forceinline__ T* destination(T* tile, int pass) const {
    return tile + smem_offset_ + pass * STEP * Layout::COLS;
  }

  /// Copies a tile that crosses the edge of X, or whose rows are not aligned. A vec16 that is
  /// wholly inside or wholly outside X is copied in units of BYTES; any other vec16, or every vec16
  /// if BYTES is 0, is copied element by element.
  template <int BYTES>
  __device__ __forceinline__ void copy_at_edge(T* tile) const {
    const int depth = static_cast<int>(min(k_remaining_, int64_t{Layout::DEPTH}));
    const int rows = (Layout::K_MAJOR ? valid_mn_ : depth) - row();
    const int cols = (Layout::K_MAJOR ? depth : valid_mn_) - col();
    const T* from = from_;
#pragma unroll 1  // unrolled, it would take registers that the mainloop needs
    for (int pass = 0; pass < PASSES; ++pass, from += STEP * row_stride_) {
      const int num_valid = pass * STEP < rows ? cols : 0;
      constexpr int UNIT = BYTES > 0 ? BYTES / sizeof(T) : VEC;
      if (BYTES > 0 && (num_valid <= 0 || num_valid >= VEC)) {
#pragma unroll
        for (int i = 0; i < VEC; i += UNIT) {
          cp_async<UNIT>(destination(tile, pass) + i, from + i, num_valid);
        }
      } else if constexpr (sizeof(T) == 4) {
#pragma unroll
        for (int i = 0; i < VEC; ++i) {
          cp_async<1>(destination(tile, pass) + i, from + i * col_stride_, num_valid - i);
        }
      } else {
        Vector<T, VEC> vec;
#pragma unroll
        for (int i = 0; i < VEC; ++i) {
          vec.lane[i] = i < num_valid ? from[i * col_stride_] : T(0.0f);
        }
        store_vector<VEC>(destination(tile, pass), vec);
      }
    }
  }

  const T* from_;  ///< this thread's first vec16 of the next tile
  int64_t row_stride_, col_stride_, k_remaining_;
  int copy_bytes_, valid_mn_, smem_offset_;
};

/// The operand of mma for which a fragment is read. A fragment is 16 x 2 vec16s in four 8 x 1
/// parts. For A, their order is (mn, k), (mn + 8, k), (mn, k + VEC), (mn + 8, k + VEC). For B, the
/// middle two are exchanged: its two halves along mn go into separate mma instructions, so each
/// half must be in neighbouring registers.
enum class MmaOperand { a, b };

/// Reads the fragments of one warp, whose rows begin at `mn0` of the tile: a multiple of the number
/// of rows that the warp reads.
template <typename Layout, MmaOperand OPERAND>
class FragmentReader {
  using T = typename Layout::Element;
  static constexpr int VEC = Layout::VEC;
  static constexpr unsigned PITCH = Layout::COLS * sizeof(T);

 public:
  __device__ __forceinline__ explicit FragmentReader(int mn0) {
    const unsigned lane = threadIdx.x % 32;
    unsigned mn = mn0, k = 0, element = 0;
    if constexpr (Layout::READ_BY_WORD) {
      mn += lane / 4;
      k = lane % 4;
      element = mn % VEC;
    } else {
      const unsigned first = lane / 8 % 2, second = lane / 16;
      mn += 8 * (OPERAND == MmaOperand::a ? first : second);
      k = VEC * (OPERAND == MmaOperand::a ? second : first);
      (Layout::K_MAJOR ? mn : k) += lane % 8;
    }
    const unsigned row = Layout::K_MAJOR ? mn : k, col = Layout::K_MAJOR ? k : mn;
    row_bytes_ = row * PITCH + element * sizeof(T);
    vec_ = col / VEC ^ Layout::swizzle(row);
    opaque(row_bytes_);
    opaque(vec_);
  }

  /// Reads X from (mn, k) on, where `mn` counts from the warp's first row. `tile` is an address in
  /// shared memory.
  __device__ __forceinline__ void read(unsigned (&fragment)[4], unsigned tile, int mn,
                                       int k) const {
    if constexpr (Layout::READ_BY_WORD) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int first = i % 2, second = i / 2;
        fragment[i] = load_word(address(tile, mn + 8 * (OPERAND == MmaOperand::a ? first : second),
                                        k + VEC * (OPERAND == MmaOperand::a ? second : first)));
      }
    } else {
      ldmatrix<!Layout::K_MAJOR>(fragment, address(tile, mn, k));
    }
    if constexpr (sizeof(T) == 4) {
#pragma unroll
      for (int i = 0; i < 4; ++i) fragment[i] = round_to_tf32(fragment[i]);
    }
  }

 private:
  /// `mn` and `k` share no bits with this lane's own offset, so the swizzled vec16 is a single
  /// exclusive or.
  __device__ __forceinline__ unsigned address(unsigned tile, unsigned mn, unsigned k) const {
    const unsigned row = Layout::K_MAJOR ? mn : k, col = Layout::K_MAJOR ? k : mn;
    return tile + row * PITCH + row_bytes_ + (col / VEC ^ vec_) * 16;
  }

  unsigned row_bytes_, vec_;
};

}  // namespace smem::gemm::inline SMEM_BUILD
