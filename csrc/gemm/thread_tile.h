// Register tiling: 256 threads compute a 128 x 128 tile of C, 8 x 8 elements per thread.
//
// A thread that holds 8 values of A and 8 of B in registers makes 64 products from 16 loads, so it
// reads shared memory 4 times less than with 1 x 4 elements. The block's 8 warps form a 2 x 4 grid,
// with 64 x 32 elements per warp, and the warp's lanes form an 8 x 4 grid. A warp then reads 64 +
// 32 different values for 2048 products. A thread's 8 rows are two vectors of 4, so a fragment is
// two 16-byte loads, and neighbouring lanes read neighbouring vectors. float64 has half the extent
// in each dimension: a 64 x 64 tile, 4 x 4 elements per thread.
//
// Throughout, X(mn, k) is an operand with its M or N dimension first: A itself, or B transposed.
#pragma once

#include "device/cp_async.h"
#include "gemm/accumulator.h"
#include "gemm/block_tile.h"

namespace smem::gemm::inline SMEM_BUILD {

template <typename T>
struct ThreadTile {
  using Acc = Accumulator<T>;

  static constexpr int VEC = sizeof(T) == 8 ? 2 : 4;
  static constexpr int EXTENT = 2 * VEC;  ///< rows, and columns, per thread
  static constexpr int LANES_M = 8, LANES_N = 4, WARPS_M = 2, WARPS_N = 4;
  static constexpr int THREADS = 32 * WARPS_M * WARPS_N;
  static constexpr int TILE = WARPS_M * LANES_M * EXTENT;  ///< rows, and columns, per block
  static constexpr int DEPTH = 16;                         ///< values of k per step
  static constexpr int PITCH = TILE + 16 / sizeof(T);      ///< keeps rows 16-byte aligned

  /// As[k][m] and Bs[k][n]: k is the row of both, so that a fragment is contiguous.
  using Stage = T[DEPTH][PITCH];

  static_assert(WARPS_M * LANES_M == WARPS_N * LANES_N, "the tile of C is square");

  /// The accumulators of intervals and superblocks are used every fourth or eighth step only. The
  /// compiler keeps them in local memory, which the L1 cache holds, and keeps the registers for
  /// `accum` and the fragments.
  Acc accum[EXTENT][EXTENT] = {};
  SuperblockAccum<Acc, EXTENT * EXTENT> promoted;
  int m, n;  ///< this thread's first row and column in the tile

  __device__ __forceinline__ explicit ThreadTile(int64_t K) : promoted(K) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    m = (warp / WARPS_N * LANES_M * EXTENT) + lane / LANES_N * VEC;
    n = (warp % WARPS_N * LANES_N * EXTENT) + lane % LANES_N * VEC;
  }

  __device__ __forceinline__ static void load_fragment(Acc (&fragment)[EXTENT], const T* from,
                                                       int vec_stride) {
#pragma unroll
    for (int vec = 0; vec < 2; ++vec) {
      const auto values = load_vector<VEC>(from + vec * vec_stride);
#pragma unroll
      for (int i = 0; i < VEC; ++i) fragment[vec * VEC + i] = to_accumulator(values.lane[i]);
    }
  }

  /// accum += As^T @ Bs, with k ascending.
  __device__ __forceinline__ void multiply(const Stage& As, const Stage& Bs) {
#pragma unroll
    for (int k = 0; k < DEPTH; ++k) {
      Acc a[EXTENT], b[EXTENT];
      load_fragment(a, &As[k][m], LANES_M * VEC);
      load_fragment(b, &Bs[k][n], LANES_N * VEC);
#pragma unroll
      for (int i = 0; i < EXTENT; ++i) {
#pragma unroll
        for (int j = 0; j < EXTENT; ++j) accum[i][j] = fma(a[i], b[j], accum[i][j]);
      }
    }
  }

  __device__ __forceinline__ void promote_at(int64_t k) { promoted.promote_at(k, accum[0]); }

  /// A thread's elements of C are VECS vectors of VEC neighbours. row(vec) and col(vec) are the
  /// place of a vector's first element in the tile.
  static constexpr int VECS = 2 * EXTENT;
  __device__ __forceinline__ int row(int vec) const {
    return m + vec / 2 / VEC * LANES_M * VEC + vec / 2 % VEC;
  }
  __device__ __forceinline__ int col(int vec) const { return n + vec % 2 * LANES_N * VEC; }

  __device__ __forceinline__ void totals(Acc (&values)[VECS][VEC]) const {
#pragma unroll
    for (int i = 0; i < VECS * VEC; ++i) values[i / VEC][i % VEC] = promoted.total(accum[0], i);
  }

  __device__ __forceinline__ void store(const BlockTile<T>& block) const {
    Acc values[VECS][VEC];
    totals(values);
    // This loop stays rolled: 16 copies of an epilogue would be most of the kernel's code.
#pragma unroll 1
    for (int vec = 0; vec < VECS; ++vec) {
      block.epilogue.template store<true>(block.row0 + row(vec), block.col0 + col(vec),
                                          values[vec]);
    }
  }
};

/// How the 256 threads share the copy of an operand's TILE x DEPTH stage: THREADS_K of them along k
/// and the others along mn. Each thread copies vectors of VEC_K or VEC_MN elements. Neighbouring
/// lanes are neighbours along k if K_FASTEST, else along mn.
template <typename T, int THREADS_K, bool K_FASTEST, int VEC_K, int VEC_MN>
struct CopyThreadMap {
  using Threads = ThreadTile<T>;
  static constexpr int THREADS_MN = Threads::THREADS / THREADS_K;
  static constexpr int STEP_K = THREADS_K * VEC_K, STEP_MN = THREADS_MN * VEC_MN;
  static constexpr int VEC = VEC_K * VEC_MN;
  static constexpr bool VEC_ALONG_K = VEC_K > 1;

  static_assert(VEC_K == 1 || VEC_MN == 1, "a vector extends along one dimension");
  static_assert(Threads::DEPTH % STEP_K == 0 && Threads::TILE % STEP_MN == 0,
                "all threads copy equally many vectors");

  __device__ __forceinline__ static int first_k() {
    const int thread = threadIdx.x;
    return (K_FASTEST ? thread % THREADS_K : thread / THREADS_MN) * VEC_K;
  }
  __device__ __forceinline__ static int first_mn() {
    const int thread = threadIdx.x;
    return (K_FASTEST ? thread / THREADS_K : thread % THREADS_MN) * VEC_MN;
  }
};

/// 16-byte vectors along mn, for an MN-major operand.
template <typename T>
using VecAlongMN =
    CopyThreadMap<T, ThreadTile<T>::THREADS / (ThreadTile<T>::TILE / VECTOR_WIDTH<T>), false, 1,
                  VECTOR_WIDTH<T>>;

/// 16-byte vectors along k, for a K-major operand. Two lanes along k read a 32-byte sector. The
/// transposed stores go along mn for the other lanes and have no bank conflict.
template <typename T>
using VecAlongK = CopyThreadMap<T, sizeof(T) == 8 ? 4 : 2, true, VECTOR_WIDTH<T>, 1>;

/// Single elements, neighbouring lanes along mn.
template <typename T>
using ScalarAlongMN = CopyThreadMap<T, ThreadTile<T>::THREADS / ThreadTile<T>::TILE, false, 1, 1>;

/// Single elements, 8 lanes along k. They read a whole 32-byte sector (float). The pitch is 4 banks
/// more than a multiple of 32, so the stores of the 8 x 4 lanes reach 32 different banks.
template <typename T>
using ScalarAlongK = CopyThreadMap<T, 8, true, 1, 1>;

/// Which of the four maps an operand's strides and alignment allow.
enum class CopyMode { vec_along_mn, vec_along_k, scalar_along_k, scalar_along_mn };

template <typename T>
__device__ __forceinline__ CopyMode copy_mode_of(const Matrix<const T>& X) {
  if (rows_are_vectors<VECTOR_WIDTH<T>>(X.transposed())) return CopyMode::vec_along_mn;
  if (rows_are_vectors<VECTOR_WIDTH<T>>(X)) return CopyMode::vec_along_k;
  return X.col_stride == 1 ? CopyMode::scalar_along_k : CopyMode::scalar_along_mn;
}

/// Copies the TILE x DEPTH tiles of an operand X(mn, k) to shared memory, one after the other along
/// K: stage[k][mn] = X(mn0 + mn, k0 + k), and zeros outside X. The copies are cp.async if CP_ASYNC,
/// and go through registers otherwise. The calling thread's position is a pointer that advances,
/// because 64-bit multiplications for every vector would cost registers.
template <typename T, bool CP_ASYNC>
struct StageLoader {
  using Threads = ThreadTile<T>;
  using Stage = typename Threads::Stage;

  CopyMode mode;
  const T* pointer;  ///< the calling thread's first vector of the next tile
  int64_t mn_stride, k_stride;
  int valid_mn;         ///< rows of the tile that are inside X
  int64_t k_remaining;  ///< columns of X from the next tile on

  __device__ __forceinline__ StageLoader(const Matrix<const T>& X, int64_t mn0)
      : mode(copy_mode_of(X)),
        mn_stride(X.row_stride),
        k_stride(X.col_stride),
        valid_mn(X.rows - mn0 < Threads::TILE ? static_cast<int>(X.rows - mn0) : Threads::TILE),
        k_remaining(X.cols) {
    // A vector along k cannot be one copy, because its elements are a pitch apart in the stage.
    if (CP_ASYNC && mode == CopyMode::vec_along_k) mode = CopyMode::scalar_along_k;
    pointer = mode == CopyMode::vec_along_mn     ? start<VecAlongMN<T>>(X, mn0)
              : mode == CopyMode::vec_along_k    ? start<VecAlongK<T>>(X, mn0)
              : mode == CopyMode::scalar_along_k ? start<ScalarAlongK<T>>(X, mn0)
                                                 : start<ScalarAlongMN<T>>(X, mn0);
  }

  /// Copies the next tile.
  __device__ __forceinline__ void next(Stage& stage) {
    switch (mode) {
      case CopyMode::vec_along_mn:
        return copy<VecAlongMN<T>>(stage);
      case CopyMode::vec_along_k:
        if constexpr (!CP_ASYNC) copy<VecAlongK<T>>(stage);
        return;
      case CopyMode::scalar_along_k:
        return copy<ScalarAlongK<T>>(stage);
      case CopyMode::scalar_along_mn:
        return copy<ScalarAlongMN<T>>(stage);
    }
  }

 private:
  template <typename Map>
  __device__ __forceinline__ static const T* start(const Matrix<const T>& X, int64_t mn0) {
    return X.at(mn0 + Map::first_mn(), Map::first_k());
  }

  template <typename Map>
  __device__ __forceinline__ void copy(Stage& stage) {
    const int depth = k_remaining < Threads::DEPTH ? static_cast<int>(k_remaining) : Threads::DEPTH;
#pragma unroll
    for (int i = 0; i < Threads::DEPTH; i += Map::STEP_K) {
      const int k = Map::first_k() + i;
      const T* from = pointer;
#pragma unroll
      for (int j = 0; j < Threads::TILE; j += Map::STEP_MN) {
        const int mn = Map::first_mn() + j;
        const int num_valid =
            Map::VEC_ALONG_K ? (mn < valid_mn ? depth - k : 0) : (k < depth ? valid_mn - mn : 0);
        if constexpr (CP_ASYNC) {
          cp_async<Map::VEC>(&stage[k][mn], from, num_valid);
        } else if constexpr (Map::VEC_ALONG_K) {
          const auto values = load_vector<Map::VEC>(from, num_valid);
#pragma unroll
          for (int v = 0; v < Map::VEC; ++v) stage[k + v][mn] = values.lane[v];
        } else {
          store_vector<Map::VEC>(&stage[k][mn], load_vector<Map::VEC>(from, num_valid));
        }
        from += Map::STEP_MN * mn_stride;
      }
      pointer += Map::STEP_K * k_stride;
    }
    k_remaining -= Threads::DEPTH;
  }
};

}  // namespace smem::gemm::inline SMEM_BUILD
