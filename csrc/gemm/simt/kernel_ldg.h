// The simt kernel without stages: elements of A and B go from global memory to registers.
//
//   global memory --ld.global--> fragments of STEP values of k in registers --fma--> accumulators
//
// It is for a short K and a narrow output, where the threads of a block share little of what they
// load, so that shared memory and its barriers would only delay the products. Other warps of the SM
// hide the latency of the loads. Operands may have any strides: neighbouring lanes load
// neighbouring rows of X, and the elements of a row that lie in one cache line come from L1 after
// the first.
//
// The accumulators end in shared memory, from where whole rows of out are stored (epilogue.h).
//
// What may be changed: the rows of TILES with LayoutPair::ldg, whose `depth` is STEP.
#pragma once

#include <bit>

#include "device/global_load.h"
#include "gemm/block_tile.h"
#include "gemm/simt/epilogue.h"
#include "gemm/simt/promoted_accum.h"

namespace smem::gemm::simt::inline SMEM_BUILD {

/// The shared memory of a block.
template <typename T, int TILE>
struct LdgStorage {
  using Map = ThreadMap<T, TILE>;

  Tile<T, Map::ACCUM_VECS * Map::THREADS, Map::ACCUM_VEC> accum_slots;
};

/// Loads a thread's COUNT rows of an operand X(mn, k), which are LANES rows apart.
template <int COUNT, int LANES, int STEP>
class RowLoader {
 public:
  __device__ __forceinline__ RowLoader(const Matrix<const float>& X, int64_t mn)
      : k_stride_(X.col_stride), k_left_(X.cols) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      // Rows beyond X load its last row; they affect no element that is stored.
      from_[i] = X.at(lesser(mn + i * LANES, X.rows - 1), 0);
    }
  }

  /// values[k][i]: the next STEP values of k of row i; beyond X they are zeros.
  __device__ __forceinline__ void load(float (&values)[STEP][COUNT]) {
#pragma unroll
    for (int k = 0; k < STEP; ++k) {
#pragma unroll
      for (int i = 0; i < COUNT; ++i) {
        values[k][i] = std::bit_cast<float>(global_load<4>(from_[i], k < k_left_));
        from_[i] += k_stride_;
      }
    }
    k_left_ -= STEP;
  }

 private:
  const float* from_[COUNT];
  int64_t k_stride_, k_left_;
};

/// Computes one tile over all of K and stores it to out.
template <typename T, int TILE>
__global__ void __launch_bounds__(ThreadMap<T, TILE>::THREADS,
                                  min_blocks_per_sm(TILE, LayoutPair::ldg))
    simt_ldg_kernel(const __grid_constant__ SimtParams params) {
  static_assert(std::is_same_v<T, float>, "a load has four bytes");
  using Map = ThreadMap<T, TILE>;
  constexpr int STEP = TILES[TILE].depth;
  static_assert(MIN_ACCUM_INTERVAL % STEP == 0, "an interval ends where a step ends");

  const Problem& problem = params.problem;
  const BlockTile<T> block(problem, Map::ROWS, Map::COLS);
  const int64_t interval = accum_interval(problem.K);
  RowLoader<Map::TM, Map::LANES_M, STEP> load_a(block.A, block.row0 + Map::first_row());
  RowLoader<Map::TN, Map::LANES_N, STEP> load_b(block.B.transposed(),
                                                block.col0 + Map::first_col());
  auto& slots = dynamic_shared<LdgStorage<T, TILE>>()->accum_slots;
  using Promoted = PromotedAccum<T, TILE, false>;
  Promoted promoted(slots);
  typename Promoted::Registers accum = {}, unused;

#pragma unroll 1
  for (int64_t k = 0; k < problem.K;) {
    float a[STEP][Map::TM], b[STEP][Map::TN];
    load_a.load(a);
    load_b.load(b);
#pragma unroll
    for (int step = 0; step < STEP; ++step) {
#pragma unroll
      for (int i = 0; i < Map::TM; ++i) {
#pragma unroll
        for (int j = 0; j < Map::TN; ++j) {
          accum[i][j] = fma(a[step][i], b[step][j], accum[i][j]);
        }
      }
    }
    k += STEP;
    if (k % interval != 0 || k >= problem.K) continue;
    promoted.end_interval(accum, unused);
    if (k % (INTERVALS_PER_SUPERBLOCK * interval) == 0) promoted.end_superblock(unused);
  }
  promoted.finish(accum, unused);
  const auto valid_rows = static_cast<int>(lesser(problem.M - block.row0, int64_t{Map::ROWS}));
  store_unaligned_tile<T, TILE>(block, slots, valid_rows);
}

}  // namespace smem::gemm::simt::inline SMEM_BUILD
