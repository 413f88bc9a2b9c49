// strided_copy: copies contiguous segments from their place in `in` to their place in `out`.
//
// The problem: a transpose that leaves the last dimension in place, such as (B, S, H, D) to
// (B, H, S, D), moves whole rows of D elements. The rows of the problem are the elements of a
// segment, its columns are the segments. No data is transposed, so the path is
//
//   global --> registers --> global
//
// without shared memory and without a barrier. Each thread loads a few elements before it stores
// them, and neighbouring threads have neighbouring elements of a segment. The bindings pass
// segments that are a multiple of 16 bytes as 16-byte elements (bindings/transpose_layout.h).
//
// What may be changed safely: STRIDED_COPY_THREADS and STRIDED_COPY_ELEMENTS_PER_THREAD
// (transpose/tiling.h), both powers of two.
#include "transpose/block.h"
#include "transpose/tiling.h"

namespace smem::transpose::inline SMEM_BUILD {

struct StridedCopyParams {
  Problem problem;
  int log2_segment;  ///< elements of one segment that a block copies
};

constexpr int LOG2_STRIDED_COPY_ELEMENTS =
    log2_of(STRIDED_COPY_THREADS * STRIDED_COPY_ELEMENTS_PER_THREAD);

template <typename T>
__global__ void __launch_bounds__(STRIDED_COPY_THREADS)
    strided_copy_kernel(const __grid_constant__ StridedCopyParams params) {
  const int segment = 1 << params.log2_segment;
  // Consecutive blocks continue along the segment.
  const BlockTile<T> block(params.problem,
                           make_tile_grid(params.problem, params.log2_segment,
                                          LOG2_STRIDED_COPY_ELEMENTS - params.log2_segment));
  const auto row_of = [&](int i) {
    return block.row0 + ((threadIdx.x + i * STRIDED_COPY_THREADS) & (segment - 1));
  };
  const auto col_of = [&](int i) {
    return block.col0 + ((threadIdx.x + i * STRIDED_COPY_THREADS) >> params.log2_segment);
  };
  T values[STRIDED_COPY_ELEMENTS_PER_THREAD];
#pragma unroll
  for (int i = 0; i < STRIDED_COPY_ELEMENTS_PER_THREAD; ++i) {
    if (block.in.contains(row_of(i), col_of(i))) values[i] = block.in(row_of(i), col_of(i));
  }
#pragma unroll
  for (int i = 0; i < STRIDED_COPY_ELEMENTS_PER_THREAD; ++i) {
    if (block.in.contains(row_of(i), col_of(i))) block.out(col_of(i), row_of(i)) = values[i];
  }
}

struct StridedCopy {
  static constexpr const char* NAME = "strided_copy";
  template <typename T>
  static constexpr auto kernel() {
    return strided_copy_kernel<T>;
  }
  template <typename T>
  static void run(const Problem& problem, const Device& device) {
    const int log2_segment = log2_segment_elements(problem);
    launch(NAME, kernel<T>(),
           one_block_per_tile(problem, 1 << log2_segment,
                              1 << (LOG2_STRIDED_COPY_ELEMENTS - log2_segment),
                              {STRIDED_COPY_THREADS}),
           device, StridedCopyParams{.problem = problem, .log2_segment = log2_segment});
  }
};

const Kernel strided_copy =
    make_kernel<StridedCopy>("copies contiguous segments that the transpose leaves whole");

}  // namespace smem::transpose::inline SMEM_BUILD
