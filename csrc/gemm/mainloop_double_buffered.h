// Two stages of shared memory: the next step's tiles arrive by cp.async while this step multiplies.
#pragma once

#include "device/cp_async.h"
#include "gemm/thread_tile.h"

namespace smem::gemm {
inline namespace SMEM_BUILD {

/// Starts to copy an operand's pieces into a stage: stage(k, e) = X(e0 + e, k), zeros outside.
template <typename T>
struct AsyncLoader {
  Order order;
  Source<T> source;

  __device__ __forceinline__ AsyncLoader(const Matrix<const T>& X, int64_t e0)
      : order(order_of(X)) {
    // A run along K would have to be one copy, but lies in the stage with a pitch between elements.
    if (order == Order::runs_along_k) order = Order::elements_along_k;
    source = order == Order::runs_along_e ? Source<T>::template start<RunsAlongE<T>>(X, e0)
             : order == Order::elements_along_k
                 ? Source<T>::template start<ElementsAlongK<T>>(X, e0)
                 : Source<T>::template start<ElementsAlongE<T>>(X, e0);
  }

  __device__ __forceinline__ void next(typename ThreadTile<T>::Stage& stage,
                                       Site site = Site::here()) {
    constexpr int W = VECTOR_WIDTH<T>;
    const auto copy_element = [&](int k, int e, const T* from, int inside) {
      cp_async<1>(stage.at(k, e, site), from, inside, site);
    };
    if (order == Order::runs_along_e) {
      source.template next<RunsAlongE<T>>([&](int k, int e, const T* from, int inside) {
        cp_async<W>(stage.at(k, e, site), from, inside, site);
      });
    } else if (order == Order::elements_along_k) {
      source.template next<ElementsAlongK<T>>(copy_element);
    } else {
      source.template next<ElementsAlongE<T>>(copy_element);
    }
  }
};

/// Adds the products of the block's rows of A and columns of B. One barrier a step says both that
/// the stage to read has landed and that the stage to overwrite is no longer read.
template <typename T>
__device__ __forceinline__ void multiply_by_two_stages(const Block<T>& block, int64_t K,
                                                       typename ThreadTile<T>::Stage (&As)[2],
                                                       typename ThreadTile<T>::Stage (&Bs)[2],
                                                       ThreadTile<T>& tile) {
  constexpr int DEPTH = ThreadTile<T>::DEPTH;
  AsyncLoader<T> load_a(block.A, block.row0), load_b(block.B.transposed(), block.col0);
  const auto start_next = [&](int stage) {
    load_a.next(As[stage]);
    load_b.next(Bs[stage]);
  };

  int stage = 0;
  if (K > 0) start_next(stage);
  for_each_step<DEPTH>(K, tile.sums, [&](int64_t k0) {
    cp_async_wait_all();
    __syncthreads();
    if (k0 + DEPTH < K) start_next(stage ^ 1);
    tile.multiply(As[stage], Bs[stage]);
    stage ^= 1;
  });
}

}  // namespace SMEM_BUILD
}  // namespace smem::gemm
