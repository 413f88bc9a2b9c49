// vectorized: 16 bytes an access, in global and in shared memory.
//
// Over tiled32: the same 32 x 32 tiles, but a thread loads 16 bytes of A and of B at once (4
// floats: a quarter of the load instructions) and computes that many neighbours in a row of C. It
// reads a run of Bs by one wide access and uses the element of As it holds for all of them, so
// shared-memory loads for a product fall from 2 to 1/4 + 1/4 (float). A warp covers four rows of
// C here and not one: at pitch 32 the four elements of As that it reads would lie in one bank, so
// As is padded by 16 bytes a row. That alone brings 9% (H200, 4096^3). A matrix whose rows are not
// aligned runs of 16 bytes (odd pitch, transposed view) is read element by element instead.
// Reads: A ceil(N/32) times, B ceil(M/32) times. Writes: out once.
#include "gemm/block.h"

namespace smem::gemm {
inline namespace SMEM_BUILD {

constexpr int VECTORIZED_TILE = 32;

/// A thread a run of 16 bytes of C.
template <typename T>
constexpr int VECTORIZED_THREADS = VECTORIZED_TILE * VECTORIZED_TILE / VECTOR_WIDTH<T>;

template <typename T>
__global__ void __launch_bounds__(VECTORIZED_THREADS<T>)
    vectorized_kernel(const __grid_constant__ Problem problem) {
  constexpr int TILE = VECTORIZED_TILE, W = VECTOR_WIDTH<T>;
  __shared__ Tile<T, TILE, TILE + W> As;
  __shared__ Tile<T, TILE, TILE> Bs;
  const Block<T> block(problem, TILE, TILE);
  const int tx = threadIdx.x * W, ty = threadIdx.y;
  const int64_t row = block.row0 + ty, col = block.col0 + tx;
  const bool wide_a = rows_are_vectors<W>(block.A), wide_b = rows_are_vectors<W>(block.B);

  ChunkedSums<Accumulator<T>, 1, W> sums;
  for_each_step<TILE>(problem.K, sums, [&](int64_t k0) {
    store_vector<W>(As.at(ty, tx), row_run<W>(block.A, row, k0 + tx, wide_a));
    store_vector<W>(Bs.at(ty, tx), row_run<W>(block.B, k0 + ty, col, wide_b));
    __syncthreads();
#pragma unroll
    for (int k = 0; k < TILE; ++k) {
      const auto a = to_accumulator(As(ty, k));
      const auto b = load_vector<W>(Bs.at(k, tx));
#pragma unroll
      for (int i = 0; i < W; ++i) sums.add_product(a, to_accumulator(b.lane[i]), 0, i);
    }
    __syncthreads();
  });

  Accumulator<T> values[W];
#pragma unroll
  for (int i = 0; i < W; ++i) values[i] = sums.value(0, i);
  block.epilogue.store(row, col, values);
}

struct Vectorized {
  static constexpr const char* NAME = "vectorized";
  template <typename T>
  static constexpr auto kernel() {
    return vectorized_kernel<T>;
  }
  template <typename T>
  static Geometry geometry(const Problem& problem) {
    return cover(problem, VECTORIZED_TILE, VECTORIZED_TILE,
                 {VECTORIZED_TILE / VECTOR_WIDTH<T>, VECTORIZED_TILE});
  }
};

const Kernel vectorized = make_kernel<Vectorized>(
    Vectorized::NAME, "16-byte loads and stores, 16 bytes of a row of C a thread");

}  // namespace SMEM_BUILD
}  // namespace smem::gemm
