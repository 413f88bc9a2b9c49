// double_buffered: the next step's tiles arrive by cp.async while this step multiplies.
//
// Over register_tiled: two stages of shared memory (gemm/mainloop_double_buffered.h). Copies into one run in the
// background (cp.async needs no register and no thread waits for it) while the products of the
// other are made, so the latency of global memory hides behind 16 * 64 FMAs a thread. One barrier a
// step is enough: it says both that the stage to read has landed and that the stage to overwrite is
// no longer read. An operand with K along its rows is turned on the way by copying single elements:
// cp.async may put each where it likes. Two-byte elements, and chips before sm_80, have no
// cp.async: there the copies pass through registers. Reads: A ceil(N/128) times, B ceil(M/128)
// times. Writes: out once.
#include "gemm/mainloop_double_buffered.h"

namespace smem::gemm {
inline namespace SMEM_BUILD {

template <typename T>
__global__ void __launch_bounds__(ThreadTile<T>::THREADS, 2)
    double_buffered_kernel(const __grid_constant__ Problem problem) {
  using Threads = ThreadTile<T>;
  __shared__ typename Threads::Stage As[2];
  __shared__ typename Threads::Stage Bs[2];
  const Block<T> block(problem, Threads::TILE, Threads::TILE);
  Threads tile;
  multiply_by_two_stages(block, problem.K, As, Bs, tile);
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
    return cover(problem, Threads::TILE, Threads::TILE, {Threads::THREADS});
  }
};

const Kernel double_buffered = make_kernel<DoubleBuffered>(
    DoubleBuffered::NAME, "cp.async fills the next stage meanwhile, one barrier a step");

}  // namespace SMEM_BUILD
}  // namespace smem::gemm
