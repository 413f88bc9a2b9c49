// naive: one thread per element of C, with no use of shared memory.
//
// The first rung. Each thread reads a row of A and a column of B from global memory: 2*M*N*K
// elements in all, 2 FLOP for 8 bytes. The 32 threads of a warp compute neighbours in a row of C,
// so at each step they read one element of A together (a broadcast) and 32 neighbours of B
// (coalesced). The caches serve most of these reads.
//
//   Reads:  A N times, B M times, from global memory.
//   Writes: out once.
#include "gemm/kernel_table.h"

namespace smem::gemm::inline SMEM_BUILD {

constexpr int NAIVE_ROWS = 8, NAIVE_COLS = 32, NAIVE_THREADS = NAIVE_ROWS * NAIVE_COLS;

template <typename T>
__global__ void __launch_bounds__(NAIVE_THREADS)
    naive_kernel(const __grid_constant__ Problem problem) {
  const BlockTile<T> block(problem, NAIVE_ROWS, NAIVE_COLS);
  const int64_t row = block.row0 + threadIdx.y, col = block.col0 + threadIdx.x, K = problem.K;
  if (row >= problem.M || col >= problem.N) return;
  const T* a = block.A.data + row * problem.a.row_stride;
  const T* b = block.B.data + col * problem.b.col_stride;
  const int64_t a_stride = problem.a.col_stride, b_stride = problem.b.row_stride;  // along K

  Accumulator<T> accum = 0;
  SuperblockAccum<Accumulator<T>> promoted(K);
  const int64_t interval = accum_interval(K);
  for (int64_t k0 = 0; k0 < K; k0 += interval) {  // an interval (accumulation_order.h)
    const int64_t end = K - k0 < interval ? K : k0 + interval;
    for (int64_t k = k0; k < end; ++k, a += a_stride, b += b_stride) {
      accum = fma(to_accumulator(*a), to_accumulator(*b), accum);
    }
    promoted.promote_at(end, &accum);
  }
  block.epilogue.store(row, col, promoted.total(&accum));
}

struct Naive {
  static constexpr const char* NAME = "naive";
  template <typename T>
  static constexpr auto kernel() {
    return naive_kernel<T>;
  }
  template <typename T>
  static Geometry geometry(const Problem& problem) {
    return grid_of_tiles(problem, NAIVE_ROWS, NAIVE_COLS, {NAIVE_COLS, NAIVE_ROWS});
  }
};

const Kernel naive =
    make_kernel<Naive>(Naive::NAME, "one thread per element of C, global memory only");

}  // namespace smem::gemm::inline SMEM_BUILD
