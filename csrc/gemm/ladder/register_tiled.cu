// register_tiled: each thread computes 8 x 8 elements of C in registers.
//
// What it adds over vectorized: reuse in registers. A thread makes 64 products from 16 values that
// it reads from shared memory, instead of 4 products from 5 values. The limit is then the rate of
// the FMA units and no longer that of shared memory (gemm/thread_tile.h). The block's tile grows to
// 128 x 128, which divides global reads by four. The fragments need As[k][m], so a K-major operand
// is transposed on its way into shared memory.
//
//   Reads:  A ceil(N/128) times, B ceil(M/128) times, from global memory.
//   Writes: out once.
//   Limit:  the latency of global memory. Between the two barriers of a step, a block either loads
//           or multiplies; only the other block on the SM overlaps with its loads.
#include "gemm/kernel_table.h"
#include "gemm/thread_tile.h"

namespace smem::gemm::inline SMEM_BUILD {

template <typename T>
__global__ void __launch_bounds__(ThreadTile<T>::THREADS, 2)
    register_tiled_kernel(const __grid_constant__ Problem problem) {
  using Threads = ThreadTile<T>;
  constexpr int TILE = Threads::TILE, DEPTH = Threads::DEPTH, PITCH = Threads::PITCH;
  __shared__ __align__(16) T As[DEPTH][PITCH];
  __shared__ __align__(16) T Bs[DEPTH][PITCH];
  const BlockTile<T> block(problem, TILE, TILE);
  StageLoader<T, false> load_a(block.A, block.row0), load_b(block.B.transposed(), block.col0);

  Threads tile(problem.K);
  for (int64_t k0 = 0; k0 < problem.K; k0 += DEPTH) {
    load_a.next(As);
    load_b.next(Bs);
    __syncthreads();
    tile.multiply(As, Bs);
    __syncthreads();
    tile.promote_at(k0 + DEPTH);  // where an interval ends (accumulation_order.h)
  }
  tile.store(block);
}

struct RegisterTiled {
  static constexpr const char* NAME = "register_tiled";
  template <typename T>
  static constexpr auto kernel() {
    return register_tiled_kernel<T>;
  }
  template <typename T>
  static Geometry geometry(const Problem& problem) {
    using Threads = ThreadTile<T>;
    return grid_of_tiles(problem, Threads::TILE, Threads::TILE, {Threads::THREADS});
  }
};

const Kernel register_tiled = make_kernel<RegisterTiled>(
    RegisterTiled::NAME, "8 x 8 elements of C per thread, 128 x 128 per block");

}  // namespace smem::gemm::inline SMEM_BUILD
