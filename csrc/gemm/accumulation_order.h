// Where SIMT kernels begin a new sum along K: a function of K alone.
#pragma once

#include <cstdint>

namespace smem::gemm {

/// Every kernel adds products with K ascending, one fma each, in the superblock scheme of Castaldo,
/// Whaley and Chronopoulos (SIAM J. Sci. Comput. 31, 2008): a new sum begins with every chunk, the
/// chunks' sums are added, and a new sum of those begins every 16 chunks. Chunks depend on K alone,
/// so all kernels give the same bits at any M and N. A term passes fewer roundings than in a single
/// chain, which bounds the error (docs/accuracy.md). On an H200, with normal data, float32's is at
/// or below cuBLAS's from K = 256 to 65536 (K = 4096: 2e-7 of the result, cuBLAS 3e-7, a single
/// chain 16e-7). Chunks of 64 at any K would cost the fastest kernel 5% of its speed.
constexpr int64_t SHORTEST_CHUNK = 64, CHUNKS_A_SUPERCHUNK = 16;

constexpr int64_t chunk_length(int64_t K) { return K < 2048 ? SHORTEST_CHUNK : 2 * SHORTEST_CHUNK; }

}  // namespace smem::gemm
