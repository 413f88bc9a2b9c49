// An operand's tile for tensor cores: how it lies in shared memory, how it gets there in any layout
// of the operand, and how a warp takes fragments from it. A chunk is 16 bytes, 8 elements of half
// precision or 4 floats: what a lane copies at once and what ldmatrix reads as a row.
#pragma once

#ifdef __CUDACC__

#include "device/cp_async.h"
#include "device/opaque.h"
#include "device/mma.h"

namespace smem::gemm {
inline namespace SMEM_BUILD {

/// Elements in a chunk.
template <typename T>
constexpr int CHUNK = 16 / sizeof(T);

/// Where EXTENT x DEPTH elements X(e, k) lie, where X is A, or B transposed: as in global memory,
/// rows along k if ALONG_K, else rows along e. Chunks are swizzled: exchanged within their row so
/// that 8 chunks below one another, which ldmatrix reads at once, lie in all 32 banks; so do 8 that
/// lie in a row, which cp.async writes at once.
///
/// ldmatrix cannot turn floats. Where it would have to, lanes read single ones, a warp 8 along e of
/// 4 rows: then pairs of chunks are exchanged, so that 2 of each of these rows lie in all banks.
template <typename T, bool ALONG_K_, int EXTENT_, int DEPTH_>
struct TileLayout {
  using Element = T;
  static constexpr bool ALONG_K = ALONG_K_;
  static constexpr int EXTENT = EXTENT_, DEPTH = DEPTH_;
  static constexpr int ROWS = ALONG_K ? EXTENT : DEPTH, COLS = ALONG_K ? DEPTH : EXTENT;
  static constexpr int ELEMENTS = ROWS * COLS;
  static constexpr int CHUNKS = COLS / CHUNK<T>;  ///< a row
  static constexpr int SWIZZLED = CHUNKS < 8 ? CHUNKS : 8;
  static constexpr int ROWS_A_LINE = 8 / SWIZZLED;  ///< rows in 128 bytes, the width of all banks
  static constexpr bool BY_WORDS = !ALONG_K && sizeof(T) == 4;
  static constexpr int MOVED = BY_WORDS ? 2 : 1;                 ///< chunks exchanged as one
  static constexpr int PERIOD = ROWS_A_LINE * SWIZZLED / MOVED;  ///< rows until it starts over

  static_assert(EXTENT % 16 == 0 && DEPTH % (2 * CHUNK<T>) == 0, "fragments are 16 x 2 chunks");
  static_assert((CHUNKS & (CHUNKS - 1)) == 0, "chunks are exchanged by exclusive or");

  __device__ __forceinline__ static unsigned swizzle(unsigned row) {
    return row % PERIOD / ROWS_A_LINE * MOVED;
  }
  __device__ __forceinline__ static int offset(int row, int chunk) {
    return row * COLS + CHUNK<T> * (chunk ^ swizzle(row));
  }
};

/// The bytes along the rows of X that one copy can move: 16, 8 or 4, or 0 where elements are moved
/// one by one.
template <typename T>
__device__ __forceinline__ int widest_run(const Matrix<const T>& X) {
  constexpr int S = sizeof(T);
  return rows_are_vectors<16 / S>(X)  ? 16
         : rows_are_vectors<8 / S>(X) ? 8
         : rows_are_vectors<4 / S>(X) ? 4
                                      : 0;
}

/// Copies an operand's tiles, one after the other along K, into shared memory; zeros outside of X.
template <typename Layout, int THREADS>
class TileLoader {
  using T = typename Layout::Element;
  static constexpr int CHUNKS = Layout::CHUNKS;
  static constexpr int STEP = THREADS / CHUNKS;  ///< rows between a thread's chunks
  static constexpr int PASSES = Layout::ROWS / STEP;

  static_assert(THREADS % CHUNKS == 0 && Layout::ROWS % STEP == 0,
                "the threads share out the tile without a rest");
  static_assert(STEP % Layout::PERIOD == 0, "all chunks of a thread are swizzled alike");

 public:
  /// X(e, k), of which the tiles begin at row e0.
  __device__ __forceinline__ TileLoader(const Matrix<const T>& X, int64_t e0) {
    const Matrix<const T> Y = Layout::ALONG_K ? X : X.transposed();
    row_stride_ = Y.rows > 1 ? Y.row_stride : 0;
    col_stride_ = Y.col_stride;
    run_ = widest_run<T>({Y.data, Y.rows, Y.cols, row_stride_, col_stride_});
    extent_ = static_cast<int>(min(X.rows - e0, int64_t{Layout::EXTENT}));
    k_left_ = X.cols;
    from_ = Y.data + (Layout::ALONG_K ? e0 + row() : row()) * row_stride_ +
            (Layout::ALONG_K ? col() : e0 + col()) * col_stride_;
    to_ = Layout::offset(row(), col() / CHUNK<T>);
  }

  /// Starts to copy the next tile. It is there after a wait for the copies and a barrier.
  __device__ __forceinline__ void next(T* tile) {
    if (run_ == 16 && extent_ == Layout::EXTENT && k_left_ >= Layout::DEPTH) {
#pragma unroll
      for (int pass = 0; pass < PASSES; ++pass) {
        cp_async<CHUNK<T>>(to(tile, pass), from_ + pass * STEP * row_stride_, CHUNK<T>);
      }
    } else if (run_ == 16) {
      copy_inside<16>(tile);
    } else if (run_ == 8) {
      copy_inside<8>(tile);
    } else if (run_ == 4) {
      copy_inside<4>(tile);
    } else {
      copy_inside<0>(tile);
    }
    from_ += Layout::DEPTH * (Layout::ALONG_K ? col_stride_ : row_stride_);
    opaque(from_);
    k_left_ -= Layout::DEPTH;
  }

 private:
  // Unsigned, so that a shift divides.
  __device__ __forceinline__ static int row() { return static_cast<int>(threadIdx.x / CHUNKS); }
  __device__ __forceinline__ static int col() {
    return static_cast<int>(threadIdx.x % CHUNKS * CHUNK<T>);
  }
  __device__ __forceinline__ T* to(T* tile, int pass) const {
    return tile + to_ + pass * STEP * Layout::COLS;
  }

  /// By copies of BYTES, of chunks that are wholly inside of X or wholly outside; the others, or
  /// all where BYTES is 0, element by element.
  template <int BYTES>
  __device__ __forceinline__ void copy_inside(T* tile) const {
    const int depth = static_cast<int>(min(k_left_, int64_t{Layout::DEPTH}));
    const int rows = (Layout::ALONG_K ? extent_ : depth) - row();
    const int cols = (Layout::ALONG_K ? depth : extent_) - col();
    const T* from = from_;
#pragma unroll 1  // its registers would be missing elsewhere
    for (int pass = 0; pass < PASSES; ++pass, from += STEP * row_stride_) {
      const int inside = pass * STEP < rows ? cols : 0;
      constexpr int RUN = BYTES > 0 ? BYTES / sizeof(T) : CHUNK<T>;
      if (BYTES > 0 && (inside <= 0 || inside >= CHUNK<T>)) {
#pragma unroll
        for (int i = 0; i < CHUNK<T>; i += RUN) {
          cp_async<RUN>(to(tile, pass) + i, from + i, inside);
        }
      } else if constexpr (sizeof(T) == 4) {
#pragma unroll
        for (int i = 0; i < CHUNK<T>; ++i) {
          cp_async<1>(to(tile, pass) + i, from + i * col_stride_, inside - i);
        }
      } else {
        Vector<T, CHUNK<T>> chunk;
#pragma unroll
        for (int i = 0; i < CHUNK<T>; ++i) {
          chunk.lane[i] = i < inside ? from[i * col_stride_] : T(0.0f);
        }
        store_vector<CHUNK<T>>(to(tile, pass), chunk);
      }
    }
  }

  const T* from_;  ///< this thread's first chunk of the next tile
  int64_t row_stride_, col_stride_, k_left_;
  int run_, extent_, to_;
};

/// Which of mma's operands a fragment is for. Both are 16 x 2 chunks as four parts, those of A in
/// the order (e, k), (e + 8, k), (e, k + chunk), (e + 8, k + chunk); those of B with the middle two
/// exchanged, so that its halves, which are multiplied apart, lie in neighbouring registers.
enum class Side { a, b };

/// Reads the fragments of a warp whose rows begin at `e0` of the tile, a multiple of all the extent
/// that it reads.
template <typename Layout, Side SIDE>
class FragmentReader {
  using T = typename Layout::Element;
  static constexpr unsigned PITCH = Layout::COLS * sizeof(T);

 public:
  __device__ __forceinline__ explicit FragmentReader(int e0) {
    const unsigned lane = threadIdx.x % 32;
    unsigned e = e0, k = 0, element = 0;
    if constexpr (Layout::BY_WORDS) {
      e += lane / 4;
      k = lane % 4;
      element = e % CHUNK<T>;
    } else {
      const unsigned first = lane / 8 % 2, second = lane / 16;
      e += 8 * (SIDE == Side::a ? first : second);
      k = CHUNK<T> * (SIDE == Side::a ? second : first);
      (Layout::ALONG_K ? e : k) += lane % 8;
    }
    const unsigned row = Layout::ALONG_K ? e : k, col = Layout::ALONG_K ? k : e;
    row_bytes_ = row * PITCH + element * sizeof(T);
    chunk_ = col / CHUNK<T> ^ Layout::swizzle(row);
    opaque(row_bytes_);
    opaque(chunk_);
  }

  /// X from (e, k) on, `e` from the warp's first row on. `tile` is an address in shared memory.
  __device__ __forceinline__ void read(unsigned (&fragment)[4], unsigned tile, int e, int k) const {
    if constexpr (Layout::BY_WORDS) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int first = i % 2, second = i / 2;
        fragment[i] = load_word(address(tile, e + 8 * (SIDE == Side::a ? first : second),
                                        k + CHUNK<T> * (SIDE == Side::a ? second : first)));
      }
    } else {
      ldmatrix<!Layout::ALONG_K>(fragment, address(tile, e, k));
    }
    if constexpr (sizeof(T) == 4) {
#pragma unroll
      for (int i = 0; i < 4; ++i) fragment[i] = round_to_tf32(fragment[i]);
    }
  }

 private:
  /// As e and k have none of the bits of this lane's place, its chunk is an exclusive or.
  __device__ __forceinline__ unsigned address(unsigned tile, unsigned e, unsigned k) const {
    const unsigned row = Layout::ALONG_K ? e : k, col = Layout::ALONG_K ? k : e;
    return tile + row * PITCH + row_bytes_ + (col / CHUNK<T> ^ chunk_) * 16;
  }

  unsigned row_bytes_, chunk_;
};

}  // namespace SMEM_BUILD
}  // namespace smem::gemm

#endif
