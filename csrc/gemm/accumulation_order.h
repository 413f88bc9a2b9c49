// The order in which SIMT kernels add products along K. It depends on K alone.
#pragma once

#include <cstdint>

namespace smem::gemm {

/// Every SIMT kernel adds products with K ascending, one fma each, in the superblock scheme of
/// Castaldo, Whaley and Chronopoulos (SIAM J. Sci. Comput. 31, 2008). An accumulator starts from
/// zero at every accumulation interval of K; the intervals' accumulators are added to a superblock
/// accumulator, which starts from zero every 16 intervals; the superblocks are added at the end.
///
///   k:   0 ....... 64 ....... 128 ....... 192 ...             (K < 2048; else 128 per interval)
///        [interval ][interval ][interval ] ...  16 of them: one superblock
///        [                    superblock                    ][     superblock     ] ...
///
/// The intervals depend on K alone, so all kernels give the same bits at any M and N. A term passes
/// fewer roundings than in a single chain, which bounds the error (docs/accuracy.md). On an H200
/// with normally distributed data, float32's error is at or below cuBLAS's from K = 256 to 65536
/// (K = 4096: 2e-7 of the result, cuBLAS 3e-7, a single chain 16e-7). Intervals of 64 at any K
/// would cost the fastest kernel 5% of its speed.
constexpr int64_t MIN_ACCUM_INTERVAL = 64, INTERVALS_PER_SUPERBLOCK = 16;

/// Values of k per accumulation interval.
constexpr int64_t accum_interval(int64_t K) {
  return K < 2048 ? MIN_ACCUM_INTERVAL : 2 * MIN_ACCUM_INTERVAL;
}

}  // namespace smem::gemm
