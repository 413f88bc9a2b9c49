// The mainloop with two stages of shared memory: cp.async fills one while the other is multiplied.
//
//   step          0          1          2
//   cp.async   load 1     load 2     load 3      into stage 1, 0, 1
//   FMA        multiply 0 multiply 1 multiply 2  from stage 0, 1, 0
#pragma once

#include "device/cp_async.h"
#include "gemm/thread_tile.h"

namespace smem::gemm {
inline namespace SMEM_BUILD {

/// Copies an operand's tiles into a stage by cp.async: stage(k, mn) = X(mn0 + mn, k), zeros outside
/// X.
template <typename T>
struct CpAsyncLoader {
  CopyMode mode;
  GlobalTileIterator<T> tiles;

  __device__ __forceinline__ CpAsyncLoader(const Matrix<const T>& X, int64_t mn0)
      : mode(copy_mode_of(X)) {
    // A vector along k cannot be one copy, because its elements are a pitch apart in the stage.
    if (mode == CopyMode::vec_along_k) mode = CopyMode::scalar_along_k;
    using Tiles = GlobalTileIterator<T>;
    tiles = mode == CopyMode::vec_along_mn     ? Tiles::template start<VecAlongMN<T>>(X, mn0)
            : mode == CopyMode::scalar_along_k ? Tiles::template start<ScalarAlongK<T>>(X, mn0)
                                               : Tiles::template start<ScalarAlongMN<T>>(X, mn0);
  }

  /// Starts the copy of the next tile.
  __device__ __forceinline__ void next(typename ThreadTile<T>::Stage& stage,
                                       Site site = Site::here()) {
    constexpr int W = VECTOR_WIDTH<T>;
    const auto copy_element = [&](int k, int mn, const T* from, int num_valid) {
      cp_async<1>(stage.at(k, mn, site), from, num_valid, site);
    };
    if (mode == CopyMode::vec_along_mn) {
      tiles.template next<VecAlongMN<T>>([&](int k, int mn, const T* from, int num_valid) {
        cp_async<W>(stage.at(k, mn, site), from, num_valid, site);
      });
    } else if (mode == CopyMode::scalar_along_k) {
      tiles.template next<ScalarAlongK<T>>(copy_element);
    } else {
      tiles.template next<ScalarAlongMN<T>>(copy_element);
    }
  }
};

/// Accumulates the products of the block's rows of A and columns of B into `tile`. One barrier per
/// step is enough: after it, the copies into the stage to read have landed for all threads, and all
/// threads have finished reading the stage to overwrite.
template <typename T>
__device__ __forceinline__ void mainloop_double_buffered(const BlockTile<T>& block, int64_t K,
                                                         typename ThreadTile<T>::Stage (&As)[2],
                                                         typename ThreadTile<T>::Stage (&Bs)[2],
                                                         ThreadTile<T>& tile) {
  constexpr int DEPTH = ThreadTile<T>::DEPTH;
  CpAsyncLoader<T> load_a(block.A, block.row0), load_b(block.B.transposed(), block.col0);
  const auto load_next = [&](int stage) {
    load_a.next(As[stage]);
    load_b.next(Bs[stage]);
  };

  int stage = 0;
  if (K > 0) load_next(stage);
  for_each_step<DEPTH>(K, tile.accum, [&](int64_t k0) {
    cp_async_wait_all();
    __syncthreads();
    if (k0 + DEPTH < K) load_next(stage ^ 1);
    tile.multiply(As[stage], Bs[stage]);
    stage ^= 1;
  });
}

}  // namespace SMEM_BUILD
}  // namespace smem::gemm
