// An operand's tile for tensor cores: how it lies in shared memory, how it gets there in any layout
// of the operand, and how a warp takes fragments from it. Elements have 2 bytes; 8 of them, 16
// bytes, are a chunk: what a lane copies at once and what ldmatrix reads as a matrix's row.
#pragma once

#ifdef __CUDACC__

#include "device/cp_async.h"
#include "device/mma.h"

namespace smem::gemm {
inline namespace SMEM_BUILD {

constexpr int CHUNK = 8;

/// Where EXTENT x DEPTH elements X(e, k) lie, where X is A, or B transposed: as in global memory,
/// rows along k if ALONG_K, else rows along e. Chunks are swizzled: exchanged within their row so
/// that 8 chunks below one another, which ldmatrix reads at once, lie in all 32 banks; so do 8 that
/// lie in a row, which cp.async writes at once.
template <bool ALONG_K_, int EXTENT_, int DEPTH_>
struct TileLayout {
  static constexpr bool ALONG_K = ALONG_K_;
  static constexpr int EXTENT = EXTENT_, DEPTH = DEPTH_;
  static constexpr int ROWS = ALONG_K ? EXTENT : DEPTH, COLS = ALONG_K ? DEPTH : EXTENT;
  static constexpr int ELEMENTS = ROWS * COLS;
  static constexpr int CHUNKS = COLS / CHUNK;  ///< a row
  static constexpr int SWIZZLED = CHUNKS < 8 ? CHUNKS : 8;
  static constexpr int ROWS_A_LINE = 8 / SWIZZLED;  ///< rows in 128 bytes, the width of all banks

  static_assert(EXTENT % 16 == 0 && DEPTH % 16 == 0, "fragments are 16 x 16");
  static_assert((CHUNKS & (CHUNKS - 1)) == 0, "chunks are exchanged by exclusive or");

  __device__ __forceinline__ static int swizzle(int row) { return row / ROWS_A_LINE % SWIZZLED; }
  __device__ __forceinline__ static int offset(int row, int chunk) {
    return row * COLS + CHUNK * (chunk ^ swizzle(row));
  }
};

/// Keeps a value in its register. Left to itself, nvcc computes addresses anew in every step, or
/// walks along with several pointers where one is enough.
__device__ __forceinline__ void keep(unsigned& value) { asm volatile("" : "+r"(value)); }
template <typename T>
__device__ __forceinline__ void keep(const T*& pointer) {
  asm volatile("" : "+l"(pointer));
}

/// The widest run of elements along the rows of X that one copy can move: 8, 4 or 2, or 1 where
/// they must go through registers.
template <typename T>
__device__ __forceinline__ int widest_run(const Matrix<const T>& X) {
  return rows_are_vectors<8>(X) ? 8 : rows_are_vectors<4>(X) ? 4 : rows_are_vectors<2>(X) ? 2 : 1;
}

/// Copies an operand's tiles, one after the other along K, into shared memory; zeros outside of X.
template <typename T, typename Layout, int THREADS>
class TileLoader {
  static constexpr int CHUNKS = Layout::CHUNKS;
  static constexpr int STEP = THREADS / CHUNKS;  ///< rows between a thread's chunks
  static constexpr int PASSES = Layout::ROWS / STEP;

  static_assert(THREADS % CHUNKS == 0 && Layout::ROWS % STEP == 0,
                "the threads share out the tile without a rest");
  static_assert(STEP % 8 == 0, "all chunks of a thread are swizzled alike");

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
    to_ = Layout::offset(row(), col() / CHUNK);
  }

  /// Starts to copy the next tile. It is there after a wait for the copies and a barrier.
  __device__ __forceinline__ void next(T* tile) {
    if (run_ == 8 && extent_ == Layout::EXTENT && k_left_ >= Layout::DEPTH) {
#pragma unroll
      for (int pass = 0; pass < PASSES; ++pass) {
        copy_async<CHUNK>(to(tile, pass), from_ + pass * STEP * row_stride_, CHUNK);
      }
    } else if (run_ == 8) {
      copy_inside<8>(tile);
    } else if (run_ == 4) {
      copy_inside<4>(tile);
    } else if (run_ == 2) {
      copy_inside<2>(tile);
    } else {
      copy_inside<1>(tile);
    }
    from_ += Layout::DEPTH * (Layout::ALONG_K ? col_stride_ : row_stride_);
    keep(from_);
    k_left_ -= Layout::DEPTH;
  }

 private:
  // Unsigned, so that a shift divides.
  __device__ __forceinline__ static int row() { return static_cast<int>(threadIdx.x / CHUNKS); }
  __device__ __forceinline__ static int col() {
    return static_cast<int>(threadIdx.x % CHUNKS * CHUNK);
  }
  __device__ __forceinline__ T* to(T* tile, int pass) const {
    return tile + to_ + pass * STEP * Layout::COLS;
  }

  /// By copies of RUN elements, where each is wholly inside of X or wholly outside.
  template <int RUN>
  __device__ __forceinline__ void copy_inside(T* tile) const {
    const int depth = static_cast<int>(min(k_left_, int64_t{Layout::DEPTH}));
    const int rows = (Layout::ALONG_K ? extent_ : depth) - row();
    const int cols = (Layout::ALONG_K ? depth : extent_) - col();
    const T* from = from_;
#pragma unroll 1  // its registers would be missing elsewhere
    for (int pass = 0; pass < PASSES; ++pass, from += STEP * row_stride_) {
      const int inside = pass * STEP < rows ? cols : 0;
      if (RUN > 1 && (inside <= 0 || inside >= CHUNK)) {
#pragma unroll
        for (int i = 0; i < CHUNK; i += RUN) {
          copy_async<RUN>(to(tile, pass) + i, from + i, inside);
        }
      } else {
        Vector<T, CHUNK> chunk;
#pragma unroll
        for (int i = 0; i < CHUNK; ++i) {
          chunk.lane[i] = i < inside ? from[i * col_stride_] : T(0.0f);
        }
        store_vector<CHUNK>(to(tile, pass), chunk);
      }
    }
  }

  const T* from_;  ///< this thread's first chunk of the next tile
  int64_t row_stride_, col_stride_, k_left_;
  int run_, extent_, to_;
};

/// Which of mma's operands a fragment is for. Both are 16 x 16 as four 8 x 8 matrices, those of A
/// in the order (e, k), (e + 8, k), (e, k + 8), (e + 8, k + 8); those of B with the middle two
/// exchanged, so that its halves, which are multiplied apart, lie in neighbouring registers.
enum class Side { a, b };

/// Reads the fragments of a warp whose rows begin at `e0` of the tile, a multiple of all the extent
/// that it reads.
template <typename T, typename Layout, Side SIDE>
class FragmentReader {
 public:
  __device__ __forceinline__ explicit FragmentReader(int e0) {
    const unsigned lane = threadIdx.x % 32, first = lane / 8 % 2 * 8, second = lane / 16 * 8;
    const unsigned e = e0 + (SIDE == Side::a ? first : second);
    const unsigned k = SIDE == Side::a ? second : first;
    const unsigned row = (Layout::ALONG_K ? e : k) + lane % 8;
    row_bytes_ = row * Layout::COLS * sizeof(T);
    chunk_ = (Layout::ALONG_K ? k : e) / CHUNK ^ Layout::swizzle(static_cast<int>(row));
    keep(row_bytes_);
    keep(chunk_);
  }

  /// X(e, k) to X(e + 15, k + 15), `e` from the warp's first row on. `tile` is an address in shared
  /// memory. As e and k have none of the bits of this lane's place, its chunk is an exclusive or.
  __device__ __forceinline__ void read(unsigned (&fragment)[4], unsigned tile, int e, int k) const {
    const unsigned row = Layout::ALONG_K ? e : k, col = Layout::ALONG_K ? k : e;
    load_matrices<!Layout::ALONG_K>(fragment, tile + row * Layout::COLS * sizeof(T) + row_bytes_ +
                                                  (col / CHUNK ^ chunk_) * CHUNK * sizeof(T));
  }

 private:
  unsigned row_bytes_, chunk_;
};

}  // namespace SMEM_BUILD
}  // namespace smem::gemm

#endif
