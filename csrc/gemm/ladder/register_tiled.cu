// register_tiled: each thread computes an 8 x 8 block of C in registers.
//
// Over vectorized: 64 products for 16 values read from shared memory instead of 4 for 5, so the
// FMA units and no longer the shared-memory port set the pace (thread_tile.h). The 128 x 128 tile
// also cuts global reads by four. A operand that lies with K along its rows is turned on its way
// into shared memory, since fragments want As(k, m). Loads still stand between two barriers: while
// a step loads, nothing multiplies but the other block on the SM. Reads: A ceil(N/128)
// times, B ceil(M/128) times. Writes: out once.
#include "gemm/thread_tile.h"

namespace smem::gemm {
inline namespace SMEM_BUILD {

/// Loads an operand's pieces into a stage: stage(k, e) = X(e0 + e, k), zeros outside.
template <typename T>
struct Loader {
  Order order;
  Source<T> source;

  __device__ __forceinline__ Loader(const Matrix<const T>& X, int64_t e0) : order(order_of(X)) {
    source = order == Order::runs_along_e   ? Source<T>::template start<RunsAlongE<T>>(X, e0)
             : order == Order::runs_along_k ? Source<T>::template start<RunsAlongK<T>>(X, e0)
             : order == Order::elements_along_k
                 ? Source<T>::template start<ElementsAlongK<T>>(X, e0)
                 : Source<T>::template start<ElementsAlongE<T>>(X, e0);
  }

  __device__ __forceinline__ void next(typename ThreadTile<T>::Stage& stage,
                                       Site site = Site::here()) {
    constexpr int W = VECTOR_WIDTH<T>;
    const auto load_element = [&](int k, int e, const T* from, int inside) {
      stage(k, e, site) = inside > 0 ? load(from, site) : T(0.0f);
    };
    if (order == Order::runs_along_e) {
      source.template next<RunsAlongE<T>>([&](int k, int e, const T* from, int inside) {
        store_vector<W>(stage.at(k, e, site), load_vector<W>(from, inside, site), site);
      });
    } else if (order == Order::runs_along_k) {
      source.template next<RunsAlongK<T>>([&](int k, int e, const T* from, int inside) {
        const auto values = load_vector<W>(from, inside, site);
#pragma unroll
        for (int j = 0; j < W; ++j) stage(k + j, e, site) = values.lane[j];
      });
    } else if (order == Order::elements_along_k) {
      source.template next<ElementsAlongK<T>>(load_element);
    } else {
      source.template next<ElementsAlongE<T>>(load_element);
    }
  }
};

template <typename T>
__global__ void __launch_bounds__(ThreadTile<T>::THREADS, 2)
    register_tiled_kernel(const __grid_constant__ Problem problem) {
  using Threads = ThreadTile<T>;
  __shared__ typename Threads::Stage As;
  __shared__ typename Threads::Stage Bs;
  const Block<T> block(problem, Threads::TILE, Threads::TILE);
  Loader<T> load_a(block.A, block.row0), load_b(block.B.transposed(), block.col0);

  Threads tile;
  for_each_step<Threads::DEPTH>(problem.K, tile.sums, [&](int64_t) {
    load_a.next(As);
    load_b.next(Bs);
    __syncthreads();
    tile.multiply(As, Bs);
    __syncthreads();
  });
  tile.store(block);
}

struct RegisterTiled {
  static constexpr const char* NAME = "register_tiled";
  template <typename T>
  static constexpr auto kernel() {
    return register_tiled_kernel<T>;
  }
  template <typename T>
  static Geometry geometry(const Problem& problem) {
    using Threads = ThreadTile<T>;
    return cover(problem, Threads::TILE, Threads::TILE, {Threads::THREADS});
  }
};

const Kernel register_tiled =
    make_kernel<RegisterTiled>(RegisterTiled::NAME, "each thread 8 x 8 of a 128 x 128 tile of C");

}  // namespace SMEM_BUILD
}  // namespace smem::gemm
