// How the threads of a block share out its tile.
#pragma once

#include "device/vector.h"
#include "gemm/simt/tile_config.h"

namespace smem::gemm::simt {
inline namespace SMEM_BUILD {

/// How the threads of a block lie over its tile: a warp's lanes LANES_M x LANES_N, each with TM x
/// TN elements in groups of at most 16 bytes, so that neighbouring lanes read neighbouring groups.
template <typename T, int TILE>
struct Threads {
  static constexpr int TM = TILES[TILE].thread_rows;
  static constexpr int TN = TILES[TILE].thread_cols_of(sizeof(T));
  static constexpr int LANES_M = TILES[TILE].lanes_m, LANES_N = 32 / LANES_M;
  static constexpr int WARPS_M = TILES[TILE].warps_m, WARPS_N = TILES[TILE].warps_n;
  static constexpr int THREADS = 32 * WARPS_M * WARPS_N;
  static constexpr int ROWS = WARPS_M * LANES_M * TM, COLS = WARPS_N * LANES_N * TN;
  static constexpr int GROUP_M = TM < VECTOR_WIDTH<T> ? TM : VECTOR_WIDTH<T>;
  /// Neighbours along N that a thread reads at once; those that TN leaves over it reads alone.
  static constexpr int WIDE_N = TN < VECTOR_WIDTH<T> ? TN : VECTOR_WIDTH<T>;
  static constexpr int REST_N = TN % WIDE_N;
  /// And that lie together where sums are kept.
  static constexpr int GROUP_N = REST_N == 0 ? WIDE_N : 1;
  static constexpr int GROUPS_N = TN / GROUP_N;
  static constexpr int SLOTS = TM * GROUPS_N;  ///< groups of a thread's sums

  __device__ __forceinline__ static int first_row() {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    return warp / WARPS_N * LANES_M * TM + lane / LANES_N * GROUP_M;
  }
  __device__ __forceinline__ static int first_col() {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    return warp % WARPS_N * LANES_N * TN + lane % LANES_N * WIDE_N;
  }

  /// The first of those that are left over.
  __device__ __forceinline__ static int rest_col() {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    return warp % WARPS_N * LANES_N * TN + LANES_N * (TN - REST_N) + lane % LANES_N;
  }

  /// Who has the group of sums at (row, col) of the tile, as slot * THREADS + thread: a sum of what
  /// the row and what the column says.
  __device__ __forceinline__ static int owner(int row, int col) {
    const int m = row % (LANES_M * TM), n = col % (LANES_N * TN);
    if constexpr (REST_N == 0) {
      const int warp = row / (LANES_M * TM) * WARPS_N + col / (LANES_N * TN);
      const int lane =
          m % (LANES_M * GROUP_M) / GROUP_M * LANES_N + n % (LANES_N * GROUP_N) / GROUP_N;
      const int i = m / (LANES_M * GROUP_M) * GROUP_M + m % GROUP_M;
      return (i * GROUPS_N + n / (LANES_N * GROUP_N)) * THREADS + warp * 32 + lane;
    }
    const int warp = row / (LANES_M * TM) * WARPS_N + col / (LANES_N * TN);
    const bool wide = REST_N == 0 || n < LANES_N * (TN - REST_N);
    const int lane_n = wide ? n % (LANES_N * WIDE_N) / WIDE_N : n % LANES_N;
    const int lane = m % (LANES_M * GROUP_M) / GROUP_M * LANES_N + lane_n;
    const int i = m / (LANES_M * GROUP_M) * GROUP_M + m % GROUP_M;
    const int j = wide ? n / (LANES_N * WIDE_N) * WIDE_N + n % WIDE_N : n / LANES_N;
    return (i * GROUPS_N + j / GROUP_N) * THREADS + warp * 32 + lane;
  }
};

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::simt
