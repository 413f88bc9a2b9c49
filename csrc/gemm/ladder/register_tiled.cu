// register_tiled: each thread computes an 8 x 8 block of C in registers.
//
// Over vectorized: 64 products for 16 values read from shared memory instead of 4 for 5, so the
// FMA units and no longer the shared-memory port set the pace (thread_tile.h). The 128 x 128 tile
// also cuts global reads by four. A operand that lies with K along its rows is turned on its way into
// shared memory, since fragments want As(k, m). Loads still stand between two barriers: while a
// step loads, nothing multiplies but the other block on the multiprocessor.
// Reads: A ceil(N/128) times, B ceil(M/128) times. Writes: out once.
#include "gemm/thread_tile.h"

namespace smem::gemm {
inline namespace SMEM_BUILD {

/// stage(k, e) = X(e0 + e, k0 + k), zeros outside: X is A, or B transposed.
template <typename T>
__device__ __forceinline__ void load_stage(typename ThreadTile<T>::Stage& stage,
                                           const Matrix<const T>& X, int64_t e0, int64_t k0) {
  using Threads = ThreadTile<T>;
  constexpr int W = VECTOR_WIDTH<T>;
  const bool inside = e0 + Threads::TILE <= X.rows && k0 + Threads::DEPTH <= X.cols;
  const auto copy_element = [&](int k, int e, const T* from, bool element_inside) {
    stage(k, e) = element_inside ? *from : T(0.0f);
  };

  if (inside && rows_are_vectors<W>(X.transposed())) {
    RunsAlongE<T>::for_each_run(X, e0, k0, [&](int k, int e, const T* from, bool) {
      store_vector<W>(&stage(k, e), load_vector<W>(from));
    });
  } else if (inside && rows_are_vectors<W>(X)) {
    RunsAlongK<T>::for_each_run(X, e0, k0, [&](int k, int e, const T* from, bool) {
      const auto values = load_vector<W>(from);
#pragma unroll
      for (int j = 0; j < W; ++j) stage(k + j, e) = values.lane[j];
    });
  } else if (X.col_stride == 1) {
    ElementsAlongK<T>::for_each_run(X, e0, k0, copy_element);
  } else {
    ElementsAlongE<T>::for_each_run(X, e0, k0, copy_element);
  }
}

template <typename T>
__global__ void __launch_bounds__(ThreadTile<T>::THREADS, 2)
    register_tiled_kernel(const __grid_constant__ Problem problem) {
  using Threads = ThreadTile<T>;
  __shared__ typename Threads::Stage As;
  __shared__ typename Threads::Stage Bs;
  const Block<T> block(problem, Threads::TILE, Threads::TILE);
  const Matrix<const T> B_transposed = block.B.transposed();

  Threads tile;
  for (int64_t k0 = 0; k0 < problem.K; k0 += Threads::DEPTH) {
    load_stage<T>(As, block.A, block.row0, k0);
    load_stage<T>(Bs, B_transposed, block.col0, k0);
    __syncthreads();
    tile.multiply(As, Bs);
    __syncthreads();
  }
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
