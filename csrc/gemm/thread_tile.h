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

  /// The sums of chunks are touched every fourth or eighth step only: the compiler keeps them in
  /// local memory, which the L1 cache holds, and leaves the registers to the running sums and the
  /// fragments.
  ChunkedSums<Acc, EXTENT, EXTENT> sums;
  int m, n;  ///< this thread's first row and column in the tile

  __device__ __forceinline__ ThreadTile() {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    m = (warp / WARPS_N * LANES_M * EXTENT) + lane / LANES_N * GROUP;
    n = (warp % WARPS_N * LANES_N * EXTENT) + lane % LANES_N * GROUP;
  }

  __device__ __forceinline__ static void load_fragment(Acc (&fragment)[EXTENT], const T* from,
                                                       int step, Site site = Site::here()) {
#pragma unroll
    for (int group = 0; group < 2; ++group) {
      const auto values = load_vector<GROUP>(from + group * step, site);
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
      load_fragment(a, As.at(k, m), LANES_M * GROUP);
      load_fragment(b, Bs.at(k, n), LANES_N * GROUP);
#pragma unroll
      for (int i = 0; i < EXTENT; ++i) {
#pragma unroll
        for (int j = 0; j < EXTENT; ++j) sums.add_product(a[i], b[j], i, j);
      }
    }
  }

  __device__ __forceinline__ void store(const Block<T>& block) const {
    for_each_run(block, [&](int64_t row, int64_t col, const Acc(&values)[GROUP]) {
      block.epilogue.store(row, col, values);
    });
  }

  /// Calls visit(row, column, GROUP sums from there on) for what the calling thread has computed.
  template <typename Visit>
  __device__ __forceinline__ void for_each_run(const Block<T>& block, const Visit& visit) const {
    constexpr int RUNS = 2 * EXTENT;
    Acc values[RUNS][GROUP];
#pragma unroll
    for (int run = 0; run < RUNS; ++run) {
#pragma unroll
      for (int j = 0; j < GROUP; ++j) values[run][j] = sums.value(run / 2, run % 2 * GROUP + j);
    }
    // A loop, because 16 copies of an epilogue would be most of the kernel's code.
#pragma unroll 1
    for (int run = 0; run < RUNS; ++run) {
      const int i = run / 2;
      visit(block.row0 + m + i / GROUP * LANES_M * GROUP + i % GROUP,
            block.col0 + n + run % 2 * LANES_N * GROUP, values[run]);
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
  static constexpr bool ALONG_K = K_RUN > 1;

  static_assert(K_RUN == 1 || E_RUN == 1, "a run lies along one dimension");
  static_assert(Threads::DEPTH % K_STEP == 0 && Threads::TILE % E_STEP == 0,
                "the threads share out the piece without a rest");

  __device__ __forceinline__ static int first_k() {
    const int thread = threadIdx.x;
    return (K_FIRST ? thread % THREADS_K : thread / THREADS_E) * K_RUN;
  }
  __device__ __forceinline__ static int first_e() {
    const int thread = threadIdx.x;
    return (K_FIRST ? thread / THREADS_K : thread % THREADS_E) * E_RUN;
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

/// Which of them an operand's strides and alignment allow.
enum class Order { runs_along_e, runs_along_k, elements_along_k, elements_along_e };

template <typename T>
__device__ __forceinline__ Order order_of(const Matrix<const T>& X) {
  if (rows_are_vectors<VECTOR_WIDTH<T>>(X.transposed())) return Order::runs_along_e;
  if (rows_are_vectors<VECTOR_WIDTH<T>>(X)) return Order::runs_along_k;
  return X.col_stride == 1 ? Order::elements_along_k : Order::elements_along_e;
}

/// An operand on its way along K: X(e0 + e, k), where X is A, or B transposed. The calling thread's
/// place in it is a pointer that moves on: 64-bit products for every run would cost registers.
template <typename T>
struct Source {
  using Threads = ThreadTile<T>;

  const T* line;  ///< the calling thread's first run of the current piece
  int64_t e_stride, k_stride;
  int extent;      ///< rows of the piece that are inside X
  int64_t k_left;  ///< columns of X from the current piece on

  template <typename Sharing>
  __device__ __forceinline__ static Source start(const Matrix<const T>& X, int64_t e0) {
    const int64_t rows_left = X.rows - e0;
    return {X.data + (e0 + Sharing::first_e()) * X.row_stride + Sharing::first_k() * X.col_stride,
            X.row_stride, X.col_stride,
            rows_left < Threads::TILE ? static_cast<int>(rows_left) : Threads::TILE, X.cols};
  }

  /// Calls copy(k, e, from, inside) for each run of the calling thread, `inside` being how many of
  /// its elements lie inside X (zero or less: none). Then moves on to the next piece.
  template <typename Sharing, typename Copy>
  __device__ __forceinline__ void next(const Copy& copy) {
    const int k_first = Sharing::first_k(), e_first = Sharing::first_e();
    const int depth = k_left < Threads::DEPTH ? static_cast<int>(k_left) : Threads::DEPTH;
#pragma unroll
    for (int k = 0; k < Threads::DEPTH; k += Sharing::K_STEP) {
      const T* from = line;
#pragma unroll
      for (int e = 0; e < Threads::TILE; e += Sharing::E_STEP) {
        const int k_inside = depth - k_first - k, e_inside = extent - e_first - e;
        const bool along_k = Sharing::ALONG_K;
        copy(k_first + k, e_first + e, from,
             along_k ? (e_inside > 0 ? k_inside : 0) : (k_inside > 0 ? e_inside : 0));
        from += Sharing::E_STEP * e_stride;
      }
      line += Sharing::K_STEP * k_stride;
    }
    k_left -= Threads::DEPTH;
  }
};

}  // namespace SMEM_BUILD
}  // namespace smem::gemm
