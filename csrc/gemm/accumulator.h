// The accumulators of one thread, and the loop over K that promotes them (accumulation_order.h).
#pragma once

#include "device/numeric_types.h"
#include "gemm/accumulation_order.h"

namespace smem::gemm {
inline namespace SMEM_BUILD {

/// The accumulators of a thread that computes ROWS x COLS elements of C.
template <typename Acc, int ROWS = 1, int COLS = 1>
struct SuperblockAccum {
  Acc accum[ROWS][COLS] = {};             ///< products of the current interval
  Acc interval_accum[ROWS][COLS] = {};    ///< complete intervals of the current superblock
  Acc superblock_accum[ROWS][COLS] = {};  ///< complete superblocks

  __device__ __forceinline__ void add_product(Acc a, Acc b, int i = 0, int j = 0) {
    accum[i][j] = fma(a, b, accum[i][j]);
  }
  __device__ __forceinline__ void end_interval() { promote(accum, interval_accum); }
  __device__ __forceinline__ void end_superblock() { promote(interval_accum, superblock_accum); }
  __device__ __forceinline__ Acc value(int i = 0, int j = 0) const {
    return superblock_accum[i][j] + (interval_accum[i][j] + accum[i][j]);
  }

 private:
  /// to += from; from = 0
  __device__ __forceinline__ static void promote(Acc (&from)[ROWS][COLS], Acc (&to)[ROWS][COLS]) {
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
#pragma unroll
      for (int j = 0; j < COLS; ++j) {
        to[i][j] += from[i][j];
        from[i][j] = 0;
      }
    }
  }
};

/// Calls step(k) for k = 0, DEPTH, 2 * DEPTH ... below K, and promotes `accum` at the end of every
/// accumulation interval and superblock.
template <int DEPTH, typename Accum, typename Step>
__device__ __forceinline__ void for_each_step(int64_t K, Accum& accum, const Step& step) {
  static_assert(MIN_ACCUM_INTERVAL % DEPTH == 0, "an interval ends where a step ends");
  const int64_t interval = accum_interval(K);
  for (int64_t k = 0; k < K;) {
    const int64_t end = K - k < interval ? K : k + interval;
    for (; k < end; k += DEPTH) step(k);
    if (k % interval == 0) {
      accum.end_interval();
      if (k % (INTERVALS_PER_SUPERBLOCK * interval) == 0) accum.end_superblock();
    }
  }
}

}  // namespace SMEM_BUILD
}  // namespace smem::gemm
