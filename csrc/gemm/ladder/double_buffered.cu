// double_buffered: cp.async loads the next step's tiles while the current step is multiplied.
//
// What it adds over register_tiled: overlap of loads and products. There are two stages of shared
// memory (gemm/mainloop_double_buffered.h). cp.async copies into one of them in the background,
// without registers, while the threads multiply from the other, so 16 * 64 FMAs per thread hide the
// latency of global memory. One barrier per step is enough instead of two.
//
//   Reads:  A ceil(N/128) times, B ceil(M/128) times, from global memory.
//   Writes: out once.
//
// A K-major operand is transposed by copying single elements, as cp.async may write each to any
// address. cp.async cannot copy two-byte elements, and GPUs before sm_80 do not have it: there the
// copies go through registers.
#include "gemm/kernel_table.h"
#include "gemm/mainloop_double_buffered.h"

namespace smem::gemm::inline SMEM_BUILD {

template <typename T>
__global__ void __launch_bounds__(ThreadTile<T>::THREADS, 2)
    double_buffered_kernel(const __grid_constant__ Problem problem) {
  using Threads = ThreadTile<T>;
  constexpr int TILE = Threads::TILE, DEPTH = Threads::DEPTH, PITCH = Threads::PITCH;
  __shared__ __align__(16) T As[2][DEPTH][PITCH];
  __shared__ __align__(16) T Bs[2][DEPTH][PITCH];
  const BlockTile<T> block(problem, TILE, TILE);
  Threads tile(problem.K);
  mainloop_double_buffered(block, problem.K, As, Bs, tile);
  tile.store(block);
}

struct DoubleBuffered {
  static constexpr const char* NAME = "double_buffered";
  template <typename T>
  static constexpr auto kernel() {
    return double_buffered_kernel<T>;
  }
  template <typename T>
  static Geometry geometry(const Problem& problem) {
    using Threads = ThreadTile<T>;
    return grid_of_tiles(problem, Threads::TILE, Threads::TILE, {Threads::THREADS});
  }
};

const Kernel double_buffered = make_kernel<DoubleBuffered>(
    DoubleBuffered::NAME,
    "cp.async fills the next stage during the products, one barrier per step");

}  // namespace smem::gemm::inline SMEM_BUILD
