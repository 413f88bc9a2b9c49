// The thread map: which thread computes which elements of a block's tile.
#pragma once

#include "device/vector.h"
#include "gemm/simt/lane_grid.h"
#include "gemm/simt/tile_config.h"

namespace smem::gemm::simt::inline SMEM_BUILD {

/// The warps of a block form a grid of WARPS_M x WARPS_N, the lanes of a warp a grid of LANES_M x
/// LANES_N (lane_grid.h), and each thread computes TM x TN elements. A thread's elements are
/// vectors of at most 16 bytes, interleaved so that neighbouring lanes read neighbouring vectors of
/// a fragment. Along N:
///
///   a warp's columns:   | lane 0 | lane 1 | ... | lane 0 | lane 1 | ... | tail: 0 | 1 | ... |
///                         VEC_N    VEC_N          VEC_N    VEC_N          1 column each
template <typename T, int TILE>
struct ThreadMap {
  static constexpr int TM = TILES[TILE].thread_rows;
  static constexpr int TN = TILES[TILE].thread_cols_of(sizeof(T));
  static constexpr int LANES_M = TILES[TILE].lanes_m, LANES_N = 32 / LANES_M;
  using Lanes = LaneGrid<LANES_M>;
  static constexpr int WARPS_M = TILES[TILE].warps_m, WARPS_N = TILES[TILE].warps_n;
  static constexpr int THREADS = 32 * WARPS_M * WARPS_N;
  static constexpr int ROWS = WARPS_M * LANES_M * TM, COLS = WARPS_N * LANES_N * TN;
  /// Without stages a warp's neighbouring lanes load neighbouring elements.
  static constexpr int MAX_VEC = has_kernel(TILE, LayoutPair::ldg, sizeof(T)) ? 1 : VECTOR_WIDTH<T>;
  static constexpr int VEC_M = TM < MAX_VEC ? TM : MAX_VEC;
  /// Columns that a thread reads at once. It reads each of the TAIL_N others alone.
  static constexpr int VEC_N = TN < MAX_VEC ? TN : MAX_VEC;
  static constexpr int TAIL_N = TN % VEC_N;
  /// Columns per vector of accumulators in shared memory.
  static constexpr int ACCUM_VEC = TAIL_N == 0 ? VEC_N : 1;
  static constexpr int ACCUM_VECS_N = TN / ACCUM_VEC;
  static constexpr int ACCUM_VECS = TM * ACCUM_VECS_N;  ///< per thread

  __device__ __forceinline__ static int first_row() {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    return warp / WARPS_N * LANES_M * TM + Lanes::m_of(lane) * VEC_M;
  }
  __device__ __forceinline__ static int first_col() {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    return warp % WARPS_N * LANES_N * TN + Lanes::n_of(lane) * VEC_N;
  }

  /// The first column of the tail.
  __device__ __forceinline__ static int tail_col() {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    return warp % WARPS_N * LANES_N * TN + LANES_N * (TN - TAIL_N) + Lanes::n_of(lane);
  }

  /// The slot, vector * THREADS + thread, of the accumulators at (row, col) of the tile. It is a
  /// sum of a function of the row and a function of the column.
  __device__ __forceinline__ static int accum_slot(int row, int col) {
    const int m = row % (LANES_M * TM), n = col % (LANES_N * TN);
    const int warp = row / (LANES_M * TM) * WARPS_N + col / (LANES_N * TN);
    const bool is_in_vector = TAIL_N == 0 || n < LANES_N * (TN - TAIL_N);
    const int lane_n = is_in_vector ? n % (LANES_N * VEC_N) / VEC_N : n % LANES_N;
    const int lane = Lanes::lane_at(m % (LANES_M * VEC_M) / VEC_M, lane_n);
    const int i = m / (LANES_M * VEC_M) * VEC_M + m % VEC_M;
    const int vec_n = TAIL_N == 0    ? n / (LANES_N * VEC_N)
                      : is_in_vector ? n / (LANES_N * VEC_N) * VEC_N + n % VEC_N
                                     : n / LANES_N;
    return (i * ACCUM_VECS_N + vec_n) * THREADS + warp * 32 + lane;
  }
};

}  // namespace smem::gemm::simt::inline SMEM_BUILD
