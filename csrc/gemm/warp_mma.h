// A warp's part of a product by mma.sync: its fragments and accumulators.
#pragma once

#include "gemm/smem_layout.h"

namespace smem::gemm::inline SMEM_BUILD {

/// The accumulators of one warp: 16 x 8 tiles in the register layout of mma. `Shape` gives the
/// sizes of the block's tile and of its grid of warps; a stage holds A's tile, then B's from
/// A_BYTES on.
template <typename Shape, typename LayoutA, typename LayoutB>
struct WarpMma {
  using T = typename LayoutA::Element;
  static constexpr int WARP_N = Shape::WARP_N;
  static constexpr int COUNT_M = Shape::WARP_M / 16, COUNT_N = Shape::WARP_N / 16;

  struct Fragments {
    unsigned a[COUNT_M][4], b[COUNT_N][4];
  };

  float accum[COUNT_M][2 * COUNT_N][4] = {};
  int m, n;  ///< the warp's first row and column in the tile
  FragmentReader<LayoutA, MmaOperand::a> reader_a;
  FragmentReader<LayoutB, MmaOperand::b> reader_b;

  __device__ __forceinline__ WarpMma()
      : m(threadIdx.x / 32 / Shape::WARPS_N * Shape::WARP_M),
        n(threadIdx.x / 32 % Shape::WARPS_N * Shape::WARP_N),
        reader_a(m),
        reader_b(n) {}

  /// Reads the fragments of two vectors along K, from k on, of a stage.
  __device__ __forceinline__ void read(Fragments& fragments, unsigned stage, int k) const {
#pragma unroll
    for (int i = 0; i < COUNT_M; ++i) reader_a.read(fragments.a[i], stage, 16 * i, k);
#pragma unroll
    for (int j = 0; j < COUNT_N; ++j) {
      reader_b.read(fragments.b[j], stage + Shape::A_BYTES, 16 * j, k);
    }
  }

  __device__ __forceinline__ void multiply(const Fragments& fragments) {
#pragma unroll
    for (int i = 0; i < COUNT_M; ++i) {
#pragma unroll
      for (int j = 0; j < COUNT_N; ++j) {
        const auto& b = fragments.b[j];
        mma_sync<T>(accum[i][2 * j], fragments.a[i], b[0], b[1]);
        mma_sync<T>(accum[i][2 * j + 1], fragments.a[i], b[2], b[3]);
      }
    }
  }
};

}  // namespace smem::gemm::inline SMEM_BUILD
