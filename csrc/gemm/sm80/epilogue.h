// Stores a warp's accumulators: as elements of out, or as the partials of a split-K slice.
#pragma once

#include "gemm/block_tile.h"
#include "gemm/warp_mma.h"

namespace smem::gemm::sm80::inline SMEM_BUILD {

/// Stores accumulators through the warp's own staging buffer in shared memory, so that neighbouring
/// lanes store neighbouring vectors of a row. One rolled loop stores all of them: the code of the
/// epilogue exists once, and the accumulators that do not fit into the buffer move to the registers
/// of those already stored.
template <int STAGED_FRAGMENTS, typename T, typename Mma>
__device__ __forceinline__ void store_tile(Mma& mma, const BlockTile<T>& block,
                                           Accumulator<T>* shared) {
  constexpr int COUNT_M = Mma::COUNT_M, COUNT_N = 2 * Mma::COUNT_N, WARP_N = 8 * COUNT_N;
  constexpr int ROWS = 16 * STAGED_FRAGMENTS, VEC = 4, VECS_PER_ROW = WARP_N / VEC;
  const int lane = threadIdx.x % 32;
  Accumulator<T>* const staging = shared + threadIdx.x / 32 * (ROWS * WARP_N);
#pragma unroll 1
  for (int first = 0; first < COUNT_M; first += STAGED_FRAGMENTS) {
#pragma unroll
    for (int i = 0; i < STAGED_FRAGMENTS; ++i) {
#pragma unroll
      for (int j = 0; j < COUNT_N; ++j) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const Vector<Accumulator<T>, 2> pair{
              {mma.accum[i][j][2 * half], mma.accum[i][j][2 * half + 1]}};
          const int offset =
              Mma::staging_offset(16 * i + 8 * half + lane / 4, 8 * j + lane % 4 * 2);
          store_vector<2>(staging + offset, pair);
        }
      }
    }
    __syncwarp();
    const int64_t row0 = block.row0 + mma.m + 16 * first, col0 = block.col0 + mma.n;
#pragma unroll 2
    for (int vec = lane; vec < ROWS * VECS_PER_ROW; vec += 32) {
      const int row = vec / VECS_PER_ROW, col = vec % VECS_PER_ROW * VEC;
      const auto values = load_vector<VEC>(staging + Mma::staging_offset(row, col));
      block.epilogue.store(row0 + row, col0 + col, values.lane);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i + STAGED_FRAGMENTS < COUNT_M; ++i) {
#pragma unroll
      for (int j = 0; j < COUNT_N; ++j) {
#pragma unroll
        for (int k = 0; k < 4; ++k) mma.accum[i][j][k] = mma.accum[i + STAGED_FRAGMENTS][j][k];
      }
    }
  }
}

/// Stores accumulators unchanged to the M x N matrix `partials`, whose rows are `pitch` apart;
/// pitch is even. Each store of a warp writes eight rows of 32 bytes, which are whole sectors.
template <typename Mma>
__device__ __forceinline__ void store_partials(const Mma& mma, float* partials, int64_t pitch,
                                               int rows, int cols) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < Mma::COUNT_M; ++i) {
#pragma unroll
    for (int j = 0; j < 2 * Mma::COUNT_N; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = mma.m + 16 * i + 8 * half + lane / 4, col = mma.n + 8 * j + lane % 4 * 2;
        if (row >= rows || col >= cols) continue;
        const Vector<float, 2> pair{{mma.accum[i][j][2 * half], mma.accum[i][j][2 * half + 1]}};
        store_vector<2>(partials + row * pitch + col, pair);
      }
    }
  }
}

}  // namespace smem::gemm::sm80::inline SMEM_BUILD
