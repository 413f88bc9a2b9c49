// Register tiling: 256 threads compute a 128 x 128 tile of C, each of them 8 x 8 elements of it.
//
// A thread that holds 8 values of A and 8 of B in registers makes 64 products of 16 loads: shared
// memory is read 4 times less than with 1 x 4. The 8 warps stand 2 x 4 over the tile, each on
// 64 x 32 elements, its lanes 8 x 4: a warp then reads 64 + 32 different values for 2048 products.
// Each thread's 8 rows are two groups of 4 so that a fragment is two 16-byte loads and neighbouring
// lanes read neighbouring groups. float64 has half of everything: 64 x 64, 4 x 4 a thread.
#pragma once

#include "gemm/block.h"

namespace smem::gemm {
inline namespace SMEM_BUILD {

template <typename T>
struct ThreadTile {
  using Acc = Accumulator<T>;

  static constexpr int GROUP = sizeof(T) == 8 ? 2 : 4;
  static constexpr int EXTENT = 2 * GROUP;  ///< rows, and columns, a thread
  static constexpr int LANES_M = 8, LANES_N = 4, WARPS_M = 2, WARPS_N = 4;
  static constexpr int THREADS = 32 * WARPS_M * WARPS_N;
  static constexpr int TILE = WARPS_M * LANES_M * EXTENT;  ///< rows, and columns, a block
  static constexpr int DEPTH = 16;                         ///< along K, a step
  static constexpr int PITCH = TILE + 16 / sizeof(T);      ///< rows stay 16-byte aligned

  static_assert(WARPS_M * LANES_M == WARPS_N * LANES_N, "the tile of C is square");

  /// Both operands lie with K first, so that a fragment is contiguous: As(k, m), Bs(k, n).
  using Stage = Tile<T, DEPTH, PITCH>;

  Acc sum[EXTENT][EXTENT] = {};
  int m, n;  ///< this thread's first row and column in the tile

  __device__ __forceinline__ ThreadTile() {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    m = (warp / WARPS_N * LANES_M * EXTENT) + lane / LANES_N * GROUP;
    n = (warp % WARPS_N * LANES_N * EXTENT) + lane % LANES_N * GROUP;
  }

  __device__ __forceinline__ static void load_fragment(Acc (&fragment)[EXTENT], const T* from,
                                                       int step) {
#pragma unroll
    for (int group = 0; group < 2; ++group) {
      const auto values = load_vector<GROUP>(from + group * step);
#pragma unroll
      for (int i = 0; i < GROUP; ++i) {
        fragment[group * GROUP + i] = to_accumulator(values.lane[i]);
      }
    }
  }

  /// Adds As^T @ Bs, K ascending.
  __device__ __forceinline__ void multiply(const Stage& As, const Stage& Bs) {
#pragma unroll
    for (int k = 0; k < DEPTH; ++k) {
      Acc a[EXTENT], b[EXTENT];
      load_fragment(a, &As(k, m), LANES_M * GROUP);
      load_fragment(b, &Bs(k, n), LANES_N * GROUP);
#pragma unroll
      for (int i = 0; i < EXTENT; ++i) {
#pragma unroll
        for (int j = 0; j < EXTENT; ++j) sum[i][j] = std::fma(a[i], b[j], sum[i][j]);
      }
    }
  }

  __device__ __forceinline__ void store(const Block<T>& block) const {
#pragma unroll
    for (int i = 0; i < EXTENT; ++i) {
      const int64_t row = block.row0 + m + i / GROUP * LANES_M * GROUP + i % GROUP;
#pragma unroll
      for (int group = 0; group < 2; ++group) {
        Acc values[GROUP];
#pragma unroll
        for (int j = 0; j < GROUP; ++j) values[j] = sum[i][group * GROUP + j];
        block.epilogue.store(row, block.col0 + n + group * LANES_N * GROUP, values);
      }
    }
  }
};

/// How 256 threads share out a TILE x DEPTH piece of an operand: THREADS_K of them along K, the
/// others along its extent e (M or N), each moving a run of K_RUN or E_RUN elements at once.
/// Neighbouring lanes lie along K where K_FIRST, else along e.
template <typename T, int THREADS_K, bool K_FIRST, int K_RUN, int E_RUN>
struct Sharing {
  using Threads = ThreadTile<T>;
  static constexpr int THREADS_E = Threads::THREADS / THREADS_K;
  static constexpr int K_STEP = THREADS_K * K_RUN, E_STEP = THREADS_E * E_RUN;

  static_assert(K_RUN == 1 || E_RUN == 1, "a run lies along one dimension");
  static_assert(Threads::DEPTH % K_STEP == 0 && Threads::TILE % E_STEP == 0,
                "the threads share out the piece without a rest");

  /// Calls copy(k, e, from, inside) for each run of the calling thread; `from` points to
  /// X(e0 + e, k0 + k) and must not be read where that is not inside X.
  template <typename Copy>
  __device__ __forceinline__ static void for_each_run(const Matrix<const T>& X, int64_t e0,
                                                      int64_t k0, const Copy& copy) {
    const int thread = threadIdx.x;
    const int k_first = (K_FIRST ? thread % THREADS_K : thread / THREADS_E) * K_RUN;
    const int e_first = (K_FIRST ? thread / THREADS_K : thread % THREADS_E) * E_RUN;
    const int64_t rows_left = X.rows - e0, cols_left = X.cols - k0;
    const int extent = rows_left < Threads::TILE ? static_cast<int>(rows_left) : Threads::TILE;
    const int depth = cols_left < Threads::DEPTH ? static_cast<int>(cols_left) : Threads::DEPTH;
    const T* line = X.data + (e0 + e_first) * X.row_stride + (k0 + k_first) * X.col_stride;
#pragma unroll
    for (int k = 0; k < Threads::DEPTH; k += K_STEP) {
      const T* from = line;
#pragma unroll
      for (int e = 0; e < Threads::TILE; e += E_STEP) {
        copy(k_first + k, e_first + e, from,
             e_first + e + E_RUN <= extent && k_first + k + K_RUN <= depth);
        from += E_STEP * X.row_stride;
      }
      line += K_STEP * X.col_stride;
    }
  }
};

/// 16-byte runs along e: for an operand that is contiguous along M or N.
template <typename T>
using RunsAlongE = Sharing<T, ThreadTile<T>::THREADS / (ThreadTile<T>::TILE / VECTOR_WIDTH<T>),
                           false, 1, VECTOR_WIDTH<T>>;

/// 16-byte runs along K. Two lanes along K read a 32-byte sector; the turned stores of the others,
/// along e, meet no bank conflict.
template <typename T>
using RunsAlongK = Sharing<T, sizeof(T) == 8 ? 4 : 2, true, VECTOR_WIDTH<T>, 1>;

/// Single elements, lanes along e.
template <typename T>
using ElementsAlongE = Sharing<T, ThreadTile<T>::THREADS / ThreadTile<T>::TILE, false, 1, 1>;

/// Single elements, 8 lanes along K: they fill a 32-byte sector (float), and the pitch, 4 banks
/// more than a multiple of 32, sends the stores of the 8 x 4 lanes to 32 different banks.
template <typename T>
using ElementsAlongK = Sharing<T, 8, true, 1, 1>;

}  // namespace SMEM_BUILD
}  // namespace smem::gemm
