// vectorized: 16-byte accesses to global and to shared memory.
//
// What it adds over tiled32: vectors. The tiles are the same 32 x 32, but a thread loads 16 bytes
// of A and of B at once (4 floats: a quarter of the load instructions), and computes 4 neighbours
// in a row of C. It reads 4 neighbours of Bs by one 16-byte load and multiplies all of them by the
// element of As that it holds, so loads from shared memory fall from 2 per product to 1/4 + 1/4
// (float).
//
//   Reads:  A ceil(N/32) times, B ceil(M/32) times, from global memory.
//   Writes: out once.
//   Limit:  the rate of loads from shared memory, which register_tiled lowers.
//
// A warp covers four rows of C here instead of one. At pitch 32 the four elements of As that it
// reads would be in one bank, so the rows of As are padded by 16 bytes; that alone makes the kernel
// 9% faster (H200, 4096^3). A matrix whose rows are not aligned 16-byte vectors (an odd pitch, a
// transposed view) is read element by element.
#include "gemm/kernel_table.h"

namespace smem::gemm::inline SMEM_BUILD {

constexpr int VECTORIZED_TILE = 32;

/// Each thread computes 16 bytes of a row of C.
template <typename T>
constexpr int VECTORIZED_THREADS = VECTORIZED_TILE * VECTORIZED_TILE / VECTOR_WIDTH<T>;

template <typename T>
__global__ void __launch_bounds__(VECTORIZED_THREADS<T>)
    vectorized_kernel(const __grid_constant__ Problem problem) {
  constexpr int TILE = VECTORIZED_TILE, W = VECTOR_WIDTH<T>;
  __shared__ __align__(16) T As[TILE][TILE + W];
  __shared__ __align__(16) T Bs[TILE][TILE];
  const BlockTile<T> block(problem, TILE, TILE);
  const int64_t M = problem.M, N = problem.N, K = problem.K;
  const int tx = threadIdx.x * W, ty = threadIdx.y;
  const int64_t row = block.row0 + ty, col = block.col0 + tx;
  // This thread's vectors of the current tiles of A and B.
  const T* a = block.A.data + row * problem.a.row_stride + tx * problem.a.col_stride;
  const T* b = block.B.data + ty * problem.b.row_stride + col * problem.b.col_stride;
  const bool wide_a = rows_are_vectors<W>(block.A), wide_b = rows_are_vectors<W>(block.B);

  Accumulator<T> accum[W] = {};
  SuperblockAccum<Accumulator<T>, W> promoted(K);
  for (int64_t k0 = 0; k0 < K; k0 += TILE) {
    const int64_t valid_a = row < M ? K - (k0 + tx) : 0, valid_b = k0 + ty < K ? N - col : 0;
    store_vector<W>(&As[ty][tx], load_vector<W>(a, problem.a.col_stride, valid_a, wide_a));
    store_vector<W>(&Bs[ty][tx], load_vector<W>(b, problem.b.col_stride, valid_b, wide_b));
    __syncthreads();
#pragma unroll
    for (int k = 0; k < TILE; ++k) {
      const auto a_k = to_accumulator(As[ty][k]);
      const auto b_k = load_vector<W>(&Bs[k][tx]);
#pragma unroll
      for (int i = 0; i < W; ++i) accum[i] = fma(a_k, to_accumulator(b_k.lane[i]), accum[i]);
    }
    __syncthreads();
    promoted.promote_at(k0 + TILE, accum);  // where an interval ends (accumulation_order.h)
    a += TILE * problem.a.col_stride;
    b += TILE * problem.b.row_stride;
  }

#pragma unroll
  for (int i = 0; i < W; ++i) accum[i] = promoted.total(accum, i);
  block.epilogue.template store<true>(row, col, accum);
}

struct Vectorized {
  static constexpr const char* NAME = "vectorized";
  template <typename T>
  static constexpr auto kernel() {
    return vectorized_kernel<T>;
  }
  template <typename T>
  static Geometry geometry(const Problem& problem) {
    return grid_of_tiles(problem, VECTORIZED_TILE, VECTORIZED_TILE,
                         {VECTORIZED_TILE / VECTOR_WIDTH<T>, VECTORIZED_TILE});
  }
};

const Kernel vectorized = make_kernel<Vectorized>(
    Vectorized::NAME, "16-byte loads and stores, 16 bytes of a row of C per thread");

}  // namespace smem::gemm::inline SMEM_BUILD
