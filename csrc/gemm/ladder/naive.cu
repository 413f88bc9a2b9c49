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

namespace smem::gemm {
inline namespace SMEM_BUILD {

constexpr int NAIVE_ROWS = 8, NAIVE_COLS = 32, NAIVE_THREADS = NAIVE_ROWS * NAIVE_COLS;

template <typename T>
__global__ void __launch_bounds__(NAIVE_THREADS)
    naive_kernel(const __grid_constant__ Problem problem) {
  const BlockTile<T> block(problem, NAIVE_ROWS, NAIVE_COLS);
  const int64_t row = block.row0 + threadIdx.y, col = block.col0 + threadIdx.x;
  if (row >= problem.M || col >= problem.N) return;
  Walk<const T> a = block.A.along_row(row), b = block.B.down_column(col);
  SuperblockAccum<Accumulator<T>> accum;
  for_each_step<1>(problem.K, accum, [&](int64_t) {
    const T a_k = a.next(), b_k = b.next();
    accum.add_product(to_accumulator(a_k), to_accumulator(b_k));
  });
  block.epilogue.store(row, col, accum.value());
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

}  // namespace SMEM_BUILD
}  // namespace smem::gemm
