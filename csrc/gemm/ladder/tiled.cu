// tiled16, tiled32, tiled32_padded: tiles of A and B in shared memory, loaded step by step along K.
//
// What they add over panel: a fixed amount of shared memory. A block keeps one TILE x TILE tile of
// A and one of B, and replaces them TILE values of k at a time. So every K fits, and several blocks
// share an SM. The price is two barriers per step: one before the block reads what its threads
// stored, and one before it overwrites what its threads read.
//
//   Reads:  A ceil(N/TILE) times, B ceil(M/TILE) times, from global memory: TILE times less than
//           naive, as every loaded element serves TILE threads.
//   Writes: out once.
//
// tiled32_padded gives the tiles a pitch of 33. Textbooks teach this as a cure for bank conflicts,
// but here there is no conflict to cure. A warp computes one row of C: it reads one word of As (a
// broadcast) and 32 neighbours of Bs (32 banks), and it stores 32 neighbours. The odd pitch only
// prevents the 16-byte loads of As that the compiler makes at pitch 32. Padding is useful where a
// warp reads down a column: see transpose.
#include "device/target.h"
#include "gemm/kernel_table.h"

namespace smem::gemm::inline SMEM_BUILD {

constexpr int tiled_threads(int tile) { return tile * tile; }
/// Enough blocks per SM for the most threads that an SM holds: from sm_80 on 2048.
constexpr int tiled_blocks_per_sm(int tile) {
  return (TARGET_HAS_SM80 ? 2048 : 1024) / tiled_threads(tile);
}

template <typename T, int TILE, int PAD>
__global__ void __launch_bounds__(tiled_threads(TILE), tiled_blocks_per_sm(TILE))
    tiled_kernel(const __grid_constant__ Problem problem) {
  __shared__ T As[TILE][TILE + PAD];
  __shared__ T Bs[TILE][TILE + PAD];
  const BlockTile<T> block(problem, TILE, TILE);
  const int64_t M = problem.M, N = problem.N, K = problem.K;
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int64_t row = block.row0 + ty, col = block.col0 + tx;
  // This thread's elements of the current tiles of A and B.
  const T* a = block.A.data + row * problem.a.row_stride + tx * problem.a.col_stride;
  const T* b = block.B.data + ty * problem.b.row_stride + col * problem.b.col_stride;

  Accumulator<T> accum = 0;
  SuperblockAccum<Accumulator<T>> promoted(K);
  for (int64_t k0 = 0; k0 < K; k0 += TILE) {
    const T a_element = row < M && k0 + tx < K ? *a : T(0.0f);
    As[ty][tx] = a_element;
    const T b_element = col < N && k0 + ty < K ? *b : T(0.0f);
    Bs[ty][tx] = b_element;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < TILE; ++k) {
      accum = fma(to_accumulator(As[ty][k]), to_accumulator(Bs[k][tx]), accum);
    }
    __syncthreads();
    promoted.promote_at(k0 + TILE, &accum);  // where an interval ends (accumulation_order.h)
    a += TILE * problem.a.col_stride;
    b += TILE * problem.b.row_stride;
  }
  block.epilogue.store(row, col, promoted.total(&accum));
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
    return grid_of_tiles(problem, TILE, TILE, {TILE, TILE});
  }
};

const Kernel tiled16 = make_kernel<Tiled<16, 0>>(
    "tiled16", "16 x 16 tiles in shared memory, two barriers per step along K");
const Kernel tiled32 =
    make_kernel<Tiled<32, 0>>("tiled32", "32 x 32 tiles: half the global reads of tiled16");
const Kernel tiled32_padded = make_kernel<Tiled<32, 1>>(
    "tiled32_padded", "tiles of pitch 33: removes no bank conflict in a GEMM, see its header");

}  // namespace smem::gemm::inline SMEM_BUILD
