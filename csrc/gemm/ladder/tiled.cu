// tiled16, tiled32, tiled32_padded: a tile of A and a tile of B slide along K through shared
// memory.
//
// Over panel: shared memory no longer depends on K, so every K fits and several blocks share a
// SM. The price is two barriers a step: one before reading what others stored, one
// before overwriting what others still read. Every element that is loaded serves TILE threads:
// global reads fall by TILE against naive.
//
// tiled32_padded gives the tiles a pitch of 33. The texts teach this as a cure for bank conflicts;
// here it cures none. A warp is one row of C: it reads one word of As (a broadcast) and 32
// neighbours of Bs (32 banks), and stores 32 neighbours. There was no conflict to remove, and an
// odd pitch forbids the compiler the 16-byte loads of As that it makes at pitch 32. The padding
// earns its keep where a warp walks down a column: see transpose.
// Reads: A ceil(N/TILE) times, B ceil(M/TILE) times. Writes: out once.
#include "gemm/block.h"

namespace smem::gemm {
inline namespace SMEM_BUILD {

/// Enough for every SM since sm_80 to hold as many threads as it can.
constexpr int threads_of(int tile) { return tile * tile; }
constexpr int blocks_of(int tile) { return 2048 / threads_of(tile); }

template <typename T, int TILE, int PAD>
__global__ void __launch_bounds__(threads_of(TILE), blocks_of(TILE))
    tiled_kernel(const __grid_constant__ Problem problem) {
  __shared__ Tile<T, TILE, TILE + PAD> As;
  __shared__ Tile<T, TILE, TILE + PAD> Bs;
  const Block<T> block(problem, TILE, TILE);
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int64_t row = block.row0 + ty, col = block.col0 + tx;

  ChunkedSums<Accumulator<T>> sum;
  for_each_step<TILE>(problem.K, sum, [&](int64_t k0) {
    As(ty, tx) = block.A.at_or_zero(row, k0 + tx);
    Bs(ty, tx) = block.B.at_or_zero(k0 + ty, col);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < TILE; ++k) {
      sum.add_product(to_accumulator(As(ty, k)), to_accumulator(Bs(k, tx)));
    }
    __syncthreads();
  });
  block.epilogue.store(row, col, sum.value());
}

template <int TILE, int PAD>
struct Tiled {
  static constexpr const char* NAME = PAD != 0     ? "tiled32_padded"
                                      : TILE == 16 ? "tiled16"
                                                   : "tiled32";
  template <typename T>
  static constexpr auto kernel() {
    return tiled_kernel<T, TILE, PAD>;
  }
  template <typename T>
  static Geometry geometry(const Problem& problem) {
    return cover(problem, TILE, TILE, {TILE, TILE});
  }
};

const Kernel tiled16 =
    make_kernel<Tiled<16, 0>>("tiled16", "16 x 16 tiles slide along K, two barriers a step");
const Kernel tiled32 =
    make_kernel<Tiled<32, 0>>("tiled32", "32 x 32 tiles: half the global reads of tiled16");
const Kernel tiled32_padded = make_kernel<Tiled<32, 1>>(
    "tiled32_padded", "tiles of pitch 33: removes no conflict in a GEMM, see its header");

}  // namespace SMEM_BUILD
}  // namespace smem::gemm
