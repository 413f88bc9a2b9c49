// The mainloop with two stages of shared memory: cp.async fills one while the other is multiplied.
//
//   step          0          1          2
//   cp.async   load 1     load 2     load 3      into stage 1, 0, 1
//   FMA        multiply 0 multiply 1 multiply 2  from stage 0, 1, 0
#pragma once

#include "gemm/thread_tile.h"

namespace smem::gemm::inline SMEM_BUILD {

/// Accumulates the products of the block's rows of A and columns of B into `tile`. One barrier per
/// step is enough: after it, the copies into the stage to read have landed for all threads, and all
/// threads have finished reading the stage to overwrite.
template <typename T>
__device__ __forceinline__ void mainloop_double_buffered(const BlockTile<T>& block, int64_t K,
                                                         typename ThreadTile<T>::Stage (&As)[2],
                                                         typename ThreadTile<T>::Stage (&Bs)[2],
                                                         ThreadTile<T>& tile) {
  constexpr int DEPTH = ThreadTile<T>::DEPTH;
  StageLoader<T, true> load_a(block.A, block.row0), load_b(block.B.transposed(), block.col0);
  if (K > 0) {
    load_a.next(As[0]);
    load_b.next(Bs[0]);
  }
  int stage = 0;
  for (int64_t k0 = 0; k0 < K; k0 += DEPTH) {
    cp_async_wait_all();
    __syncthreads();
    if (k0 + DEPTH < K) {
      load_a.next(As[stage ^ 1]);
      load_b.next(Bs[stage ^ 1]);
    }
    tile.multiply(As[stage], Bs[stage]);
    tile.promote_at(k0 + DEPTH);  // where an interval ends (accumulation_order.h)
    stage ^= 1;
  }
}

}  // namespace smem::gemm::inline SMEM_BUILD
