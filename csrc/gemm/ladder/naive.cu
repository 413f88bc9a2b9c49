// naive: a thread an element of C, everything from global memory.
//
// Where the road begins. Each thread reads a row of A and a column of B: 2*M*N*K elements in all,
// 2 FLOP for 8 bytes. The 32 threads of a warp lie along a row of C, so that they read one element
// of A together (a broadcast) and 32 neighbours of B (coalesced); the caches do the rest.
// Reads: A N times, B M times. Writes: out once.
#include "gemm/block.h"

namespace smem::gemm {
inline namespace SMEM_BUILD {

constexpr int NAIVE_ROWS = 8, NAIVE_COLS = 32, NAIVE_THREADS = NAIVE_ROWS * NAIVE_COLS;
constexpr int NAIVE_STEP = SHORTEST_CHUNK;

template <typename T>
__global__ void __launch_bounds__(NAIVE_THREADS)
    naive_kernel(const __grid_constant__ Problem problem) {
  const Block<T> block(problem, NAIVE_ROWS, NAIVE_COLS);
  const int64_t row = block.row0 + threadIdx.y, col = block.col0 + threadIdx.x;
  if (row >= problem.M || col >= problem.N) return;
  ChunkedSums<Accumulator<T>> sum;
  for_each_step<NAIVE_STEP>(problem.K, sum, [&](int64_t k0) {
    const int64_t end = problem.K - k0 < NAIVE_STEP ? problem.K : k0 + NAIVE_STEP;
#pragma unroll 8
    for (int64_t k = k0; k < end; ++k) {
      sum.add_product(to_accumulator(block.A(row, k)), to_accumulator(block.B(k, col)));
    }
  });
  block.epilogue.store(row, col, sum.value());
}

struct Naive {
  static constexpr const char* NAME = "naive";
  template <typename T>
  static constexpr auto kernel() {
    return naive_kernel<T>;
  }
  template <typename T>
  static Geometry geometry(const Problem& problem) {
    return cover(problem, NAIVE_ROWS, NAIVE_COLS, {NAIVE_COLS, NAIVE_ROWS});
  }
};

const Kernel naive =
    make_kernel<Naive>(Naive::NAME, "a thread an element of C, global memory only");

}  // namespace SMEM_BUILD
}  // namespace smem::gemm
