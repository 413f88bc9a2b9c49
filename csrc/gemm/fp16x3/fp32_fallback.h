// The lines that halves cannot carry: with elements that are not finite, or with several that are
// too small beside the largest of their line. Whether there are any is known on the GPU alone, so
// the product itself goes back to the tiles where it has met some: a kernel of its own, launched
// every time, took 2 us after small products and 13 after 4096 x 4096 x 4096.
#pragma once

#include "gemm/fp16x3/split_metadata.h"
#include "gemm/mainloop_double_buffered.h"

namespace smem::gemm::fp16x3 {
inline namespace SMEM_BUILD {

/// A part of K of a member of the batch.
struct Part {
  unsigned member;
  Lines a, b;
  int64_t first, length;  ///< along K
  float* partials;        ///< its matrix of sums, where K is cut (split_k.h)
};

/// The elements of such lines in the tile of `cols` columns at (row0, col0), by float32 fmas as
/// double_buffered computes them; of a part of K its sums. By as many threads as ThreadTile has,
/// with room for its stages at `shared`.
__device__ __forceinline__ void compute_exact_lines(const Problem& problem, const Part& part,
                                                    int64_t row0, int64_t col0, int cols,
                                                    unsigned char* shared) {
  using Threads = ThreadTile<float>;
  constexpr int TILE = Threads::TILE;
  static_assert(Threads::THREADS == 2 * TILE, "a thread for each row and each column");
  const int64_t end = min(col0 + cols, problem.N);
  const int thread = static_cast<int>(threadIdx.x), at = thread % TILE;
  const int64_t row = row0 + at, col = col0 + at;
  const bool is_marked = thread < TILE ? row < problem.M && part.a.mark[row] == EXACT
                                       : col < end && part.b.mark[col] == EXACT;
  if (!__syncthreads_or(is_marked)) return;

  BlockTile<float> block(problem, static_cast<int>(problem.M), static_cast<int>(problem.N),
                     part.member);
  block.row0 = row0;
  block.col0 = col0;
  block.A.data += part.first * block.A.col_stride;
  block.B.data += part.first * block.B.row_stride;
  block.A.cols = block.B.rows = part.length;
  using Stages = typename Threads::Stage[2];
  auto* const stages = reinterpret_cast<Stages*>(shared);
  Threads tile;
  mainloop_double_buffered(block, part.length, stages[0], stages[1], tile);
  tile.for_each_vec(block, [&](int64_t row, int64_t col, const auto& sums) {
    if (row >= problem.M) return;
#pragma unroll
    for (int i = 0; i < Threads::VEC; ++i) {
      if (col + i >= end) continue;
      if (part.a.mark[row] != EXACT && part.b.mark[col + i] != EXACT) continue;
      if (part.partials) {
        part.partials[row * problem.N + col + i] = sums[i];
      } else {
        block.epilogue.store(row, col + i, sums[i]);
      }
    }
  });
}

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::fp16x3
