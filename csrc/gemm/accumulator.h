// The second and third level of a thread's accumulators (accumulation_order.h).
#pragma once

#include "device/numeric_types.h"
#include "gemm/accumulation_order.h"

namespace smem::gemm::inline SMEM_BUILD {

/// The accumulators of intervals and superblocks of a thread that computes COUNT elements of C. The
/// accumulators of the current interval, `accum`, are the kernel's.
template <typename Acc, int COUNT = 1>
struct SuperblockAccum {
  unsigned interval;                 ///< values of k per interval
  Acc interval_accum[COUNT] = {};    ///< complete intervals of the current superblock
  Acc superblock_accum[COUNT] = {};  ///< complete superblocks

  __device__ __forceinline__ explicit SuperblockAccum(int64_t K)
      : interval(static_cast<unsigned>(accum_interval(K))) {}

  /// Where an interval ends at k, adds `accum` to interval_accum and sets it to zero; where a
  /// superblock ends, does the same with interval_accum. A kernel calls it at the end of every step
  /// along K. The compiler sees that the lengths are powers of two, so that a remainder is one AND.
  __device__ __forceinline__ void promote_at(int64_t k, Acc* accum) {
    if (static_cast<unsigned>(k) % interval != 0) return;
    promote(accum, interval_accum);
    if (static_cast<unsigned>(k) % (INTERVALS_PER_SUPERBLOCK * interval) == 0) {
      promote(interval_accum, superblock_accum);
    }
  }

  /// Element i of C.
  __device__ __forceinline__ Acc total(const Acc* accum, int i = 0) const {
    return superblock_accum[i] + (interval_accum[i] + accum[i]);
  }

 private:
  /// to += from; from = 0
  __device__ __forceinline__ static void promote(Acc* from, Acc* to) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      to[i] += from[i];
      from[i] = 0;
    }
  }
};

}  // namespace smem::gemm::inline SMEM_BUILD
