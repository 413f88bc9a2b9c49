// register_tiled: each thread computes 8 x 8 elements of C in registers.
//
// What it adds over vectorized: reuse in registers. A thread makes 64 products from 16 values that
// it reads from shared memory, instead of 4 products from 5 values. The limit is then the rate of
// the FMA units and no longer that of shared memory (gemm/thread_tile.h). The block's tile grows to
// 128 x 128, which divides global reads by four. The fragments need As(k, m), so a K-major operand
// is transposed on its way into shared memory.
//
//   Reads:  A ceil(N/128) times, B ceil(M/128) times, from global memory.
//   Writes: out once.
//   Limit:  the latency of global memory. Between the two barriers of a step, a block either loads
//           or multiplies; only the other block on the SM overlaps with its loads.
#include "gemm/kernel_table.h"
#include "gemm/thread_tile.h"

namespace smem::gemm {
inline namespace SMEM_BUILD {

/// Loads an operand's tiles through registers into a stage: stage(k, mn) = X(mn0 + mn, k), zeros
/// outside X.
template <typename T>
struct RegisterLoader {
  CopyMode mode;
  GlobalTileIterator<T> tiles;

  __device__ __forceinline__ RegisterLoader(const Matrix<const T>& X, int64_t mn0)
      : mode(copy_mode_of(X)) {
    using Tiles = GlobalTileIterator<T>;
    tiles = mode == CopyMode::vec_along_mn     ? Tiles::template start<VecAlongMN<T>>(X, mn0)
            : mode == CopyMode::vec_along_k    ? Tiles::template start<VecAlongK<T>>(X, mn0)
            : mode == CopyMode::scalar_along_k ? Tiles::template start<ScalarAlongK<T>>(X, mn0)
                                               : Tiles::template start<ScalarAlongMN<T>>(X, mn0);
  }

  __device__ __forceinline__ void next(typename ThreadTile<T>::Stage& stage,
                                       Site site = Site::here()) {
    constexpr int W = VECTOR_WIDTH<T>;
    const auto load_element = [&](int k, int mn, const T* from, int num_valid) {
      stage(k, mn, site) = num_valid > 0 ? load(from, site) : T(0.0f);
    };
    if (mode == CopyMode::vec_along_mn) {
      tiles.template next<VecAlongMN<T>>([&](int k, int mn, const T* from, int num_valid) {
        store_vector<W>(stage.at(k, mn, site), load_vector<W>(from, num_valid, site), site);
      });
    } else if (mode == CopyMode::vec_along_k) {
      tiles.template next<VecAlongK<T>>([&](int k, int mn, const T* from, int num_valid) {
        const auto values = load_vector<W>(from, num_valid, site);
#pragma unroll
        for (int j = 0; j < W; ++j) stage(k + j, mn, site) = values.lane[j];
      });
    } else if (mode == CopyMode::scalar_along_k) {
      tiles.template next<ScalarAlongK<T>>(load_element);
    } else {
      tiles.template next<ScalarAlongMN<T>>(load_element);
    }
  }
};

template <typename T>
__global__ void __launch_bounds__(ThreadTile<T>::THREADS, 2)
    register_tiled_kernel(const __grid_constant__ Problem problem) {
  using Threads = ThreadTile<T>;
  __shared__ typename Threads::Stage As;
  __shared__ typename Threads::Stage Bs;
  const BlockTile<T> block(problem, Threads::TILE, Threads::TILE);
  RegisterLoader<T> load_a(block.A, block.row0), load_b(block.B.transposed(), block.col0);

  Threads tile;
  for_each_step<Threads::DEPTH>(problem.K, tile.accum, [&](int64_t) {
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
    return grid_of_tiles(problem, Threads::TILE, Threads::TILE, {Threads::THREADS});
  }
};

const Kernel register_tiled = make_kernel<RegisterTiled>(
    RegisterTiled::NAME, "8 x 8 elements of C per thread, 128 x 128 per block");

}  // namespace SMEM_BUILD
}  // namespace smem::gemm
