// The rows of A and columns of B whose status is FALLBACK: those with elements that are not finite,
// or with several outliers. Whether there are any is known on the GPU only, so gemm.cu and
// gemm_sm80.cu themselves return to the tiles in which they found some. A separate kernel, launched
// every time, took 2 us after small products and 13 us after 4096 x 4096 x 4096.
#pragma once

#include "gemm/fp16x3/split_metadata.h"
#include "gemm/mainloop_double_buffered.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {

/// A k slice of a matrix of the batch.
struct FallbackSlice {
  unsigned batch;
  SplitMetadata a, b;
  int64_t k_begin, length;
  float* partials;  ///< the slice's accumulators with split-K (split_k.h), else null
};

/// Computes the elements of FALLBACK rows and columns in the tile of `cols` columns at (row0, col0)
/// by float32 FMAs, in the order of double_buffered. With split-K it stores their accumulators. The
/// block must have as many threads as ThreadTile, and `shared` room for its stages.
__device__ __forceinline__ void compute_fallback_tile(const Problem& problem,
                                                      const FallbackSlice& slice, int64_t row0,
                                                      int64_t col0, int cols,
                                                      unsigned char* shared) {
  using Threads = ThreadTile<float>;
  constexpr int TILE = Threads::TILE;
  static_assert(Threads::THREADS == 2 * TILE, "a thread for each row and each column");
  const int64_t end = min(col0 + cols, problem.N);
  const int thread = static_cast<int>(threadIdx.x), offset = thread % TILE;
  const int64_t row = row0 + offset, col = col0 + offset;
  const bool needs_fallback = thread < TILE ? row < problem.M && slice.a.status[row] == FALLBACK
                                            : col < end && slice.b.status[col] == FALLBACK;
  if (!__syncthreads_or(needs_fallback)) return;

  BlockTile<float> block(problem, static_cast<int>(problem.M), static_cast<int>(problem.N),
                         slice.batch);
  block.row0 = row0;
  block.col0 = col0;
  block.A.data += slice.k_begin * block.A.col_stride;
  block.B.data += slice.k_begin * block.B.row_stride;
  block.A.cols = block.B.rows = slice.length;
  using Stages = typename Threads::Stage[2];
  auto* const stages = reinterpret_cast<Stages*>(shared);
  Threads tile(slice.length);
  mainloop_double_buffered(block, slice.length, stages[0], stages[1], tile);
  Accumulator<float> accum[Threads::VECS][Threads::VEC];
  tile.totals(accum);
#pragma unroll 1
  for (int vec = 0; vec < Threads::VECS; ++vec) {
    const int64_t row = row0 + tile.row(vec), col = col0 + tile.col(vec);
    if (row >= problem.M) continue;
#pragma unroll
    for (int i = 0; i < Threads::VEC; ++i) {
      if (col + i >= end) continue;
      if (slice.a.status[row] != FALLBACK && slice.b.status[col + i] != FALLBACK) continue;
      if (slice.partials) {
        slice.partials[row * problem.N + col + i] = number_of(accum[vec][i]);
      } else {
        block.epilogue.store(row, col + i, accum[vec][i]);
      }
    }
  }
}

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
