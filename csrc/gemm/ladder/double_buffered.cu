// double_buffered: the next step's tiles arrive by cp.async while this step multiplies.
//
// Over register_tiled: two stages of shared memory. Copies into one run in the background (cp.async
// needs no register and no thread waits for it) while the products of the other are made, so the
// latency of global memory hides behind 16 * 64 FMAs a thread. One barrier a step is enough: it
// says both that the stage to read has landed and that the stage to overwrite is no longer read. An
// operand with K along its rows is turned on the way by copying single elements: cp.async may put
// each where it likes. Two-byte elements, and chips before sm_80, have no cp.async: there the
// copies pass through registers.
// Reads: A ceil(N/128) times, B ceil(M/128) times. Writes: out once.
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
      copy_async<1>(stage.at(k, e, site), from, inside, site);
    };
    if (order == Order::runs_along_e) {
      source.template next<RunsAlongE<T>>([&](int k, int e, const T* from, int inside) {
        copy_async<W>(stage.at(k, e, site), from, inside, site);
      });
    } else if (order == Order::elements_along_k) {
      source.template next<ElementsAlongK<T>>(copy_element);
    } else {
      source.template next<ElementsAlongE<T>>(copy_element);
    }
  }
};

template <typename T>
__global__ void __launch_bounds__(ThreadTile<T>::THREADS, 2)
    double_buffered_kernel(const __grid_constant__ Problem problem) {
  using Threads = ThreadTile<T>;
  __shared__ typename Threads::Stage As[2];
  __shared__ typename Threads::Stage Bs[2];
  const Block<T> block(problem, Threads::TILE, Threads::TILE);
  AsyncLoader<T> load_a(block.A, block.row0), load_b(block.B.transposed(), block.col0);

  const auto start_next = [&](int stage) {
    load_a.next(As[stage]);
    load_b.next(Bs[stage]);
  };

  Threads tile;
  int stage = 0;
  if (problem.K > 0) start_next(stage);
  for_each_step<Threads::DEPTH>(problem.K, tile.sums, [&](int64_t k0) {
    wait_for_copies();
    __syncthreads();
    if (k0 + Threads::DEPTH < problem.K) start_next(stage ^ 1);
    tile.multiply(As[stage], Bs[stage]);
    stage ^= 1;
  });
  tile.store(block);
}

struct DoubleBuffered {
  static constexpr const char* NAME = "double_buffered";
  template <typename T>
  static constexpr auto kernel() {
    return double_buffered_kernel<T>;
  }
  template <typename T>
  static Geometry geometry(const Problem& problem) {
    using Threads = ThreadTile<T>;
    return cover(problem, Threads::TILE, Threads::TILE, {Threads::THREADS});
  }
};

const Kernel double_buffered = make_kernel<DoubleBuffered>(
    DoubleBuffered::NAME, "cp.async fills the next stage meanwhile, one barrier a step");

}  // namespace SMEM_BUILD
}  // namespace smem::gemm
