// Rows of a few vectors per lane at any address, one warp per row.
//
//   memory    |........|........|........|........|   16-byte vectors
//   row            [======================]
//   lane          0        1        2       3         (vectors at multiples of 32 follow)
//
// The vectors at both ends are loaded whole, together with elements of the neighbouring rows, so
// that all loads are in flight at once. A mask then replaces the foreign elements by identities.
// Only the first and the last row of x load their end vectors by element, because nothing outside
// of x may be read.
//
// Order of additions: reduce/reduction_tree.h. The thresholds below are measured on an H200 and may
// be changed.
#pragma once

#include <algorithm>
#include <bit>

#include "device/pdl.h"
#include "reduce/element_type.h"
#include "reduce/store.h"
#include "reduce/tile_reduce.h"

namespace smem::reduce::inline SMEM_BUILD {

/// The most vectors per lane for which this kernel is compiled, by element size; 0: no instances.
template <typename T>
constexpr int MAX_VECTORS_PER_LANE = std::is_same_v<T, float> || sizeof(T) == 2 ? 6
                                     : sizeof(T) == 1                           ? 4
                                                                                : 0;
/// Aligned rows take this kernel from 257 elements up to this many vectors per lane, and from this
/// many rows per SM on. Otherwise a tile per warp is as fast.
constexpr int MAX_ALIGNED_VECTORS_PER_LANE = 3, MIN_ALIGNED_ROWS_PER_SM = 80;

constexpr int ROW_PER_WARP_MIN_BLOCKS_PER_SM = 4;  ///< launch bound

struct RowPerWarpParams {
  Problem problem;  ///< one loop over the rows, whose stride is at least a vector
};

/// The bits of a 32-bit word from bit `first` on; `first` may be outside of the word.
__device__ __forceinline__ uint32_t mask_from_bit(int first) {
  return static_cast<uint32_t>(uint64_t{0xffffffff} << std::clamp(first, 0, 32));
}

/// Elements `begin` to `end` - 1 of `vector`; the other elements are those of `others`.
template <typename T, int W>
__device__ __forceinline__ Loaded<T, W> select_range(Loaded<T, W> vector, int begin, int end,
                                                     const Loaded<T, W>& others) {
  constexpr int BITS = 8 * sizeof(T);
#pragma unroll
  for (int w = 0; w < W * BITS / 32; ++w) {
    const auto selected =
        mask_from_bit(begin * BITS - 32 * w) & ~mask_from_bit(end * BITS - 32 * w);
    vector.words.lane[w] = (vector.words.lane[w] & selected) | (others.words.lane[w] & ~selected);
  }
  return vector;
}

/// Loads elements `begin` to `end` - 1 of the vector at `from`. The other elements are not read and
/// become zero.
template <typename T>
__device__ __forceinline__ Loaded<T, VECTOR_WIDTH<T>> load_range(const T* from, int begin,
                                                                 int end) {
  using Element = Bits<sizeof(T)>;
  constexpr int BITS = 8 * sizeof(T);
  uint64_t low = 0, high = 0;
#pragma unroll 1
  for (int e = VECTOR_WIDTH<T> - 1; e >= 0; --e) {
    Element element = 0;
    if (begin <= e && e < end) element = std::bit_cast<Element>(from[e]);
    high = high << BITS | low >> (64 - BITS);
    low = low << BITS | element;
  }
  return std::bit_cast<Loaded<T, VECTOR_WIDTH<T>>>(Vector<uint64_t, 2>{low, high});
}

/// VECTORS: the most vectors per lane.
template <typename T, typename Op, int VECTORS>
__global__ void __launch_bounds__(THREADS, ROW_PER_WARP_MIN_BLOCKS_PER_SM)
    row_per_warp_kernel(const __grid_constant__ RowPerWarpParams params) {
  constexpr int W = VECTOR_WIDTH<T>, ROUND_ELEMENTS = 32 * W;
  constexpr int VECTORS_PER_ROUND =
      std::max(1, PARTIALS_PER_TILE / ROUND_ELEMENTS);  ///< per lane and 256 elements
  constexpr int LEVEL = std::bit_width(unsigned{W}) - 1;
  const Problem& problem = params.problem;
  const int lane = threadIdx.x % 32;
  const int64_t row = int64_t{blockIdx.x} * WARPS + threadIdx.x / 32;
  const T* const first = static_cast<const T*>(problem.in) + row * problem.outputs.stride[IN][0];
  // The row's begin and end, counted in elements from the lane's first vector.
  const int begin = misalignment(first) - lane * W;
  const int end = begin + static_cast<int>(problem.count);
  const T* const from = first - begin;
  const OrderTransform<T, Op> transform(problem);

  launch_dependent_grids();
  wait_on_dependent_grids();
  if (row >= problem.output_count) return;
  Loaded<T, W> loaded[VECTORS];
  if (row > 0 && row + 1 < problem.output_count) {
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
      loaded[v] = {};
      if (v * ROUND_ELEMENTS < end) loaded[v] = load_words<W>(from + v * ROUND_ELEMENTS);
    }
  } else {
    // Memory before the first row and after the last one may not be readable.
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
      const int position = v * ROUND_ELEMENTS;
      loaded[v] = {};
      if (begin <= position && position + W <= end) {
        loaded[v] = load_words<W>(from + position);
      } else if (position < end) {
        loaded[v] = load_range(from + position, begin - position, end - position);
      }
    }
  }

  ThreadPartials<T, Op, W> thread_partials[VECTORS_PER_ROUND];
#pragma unroll
  for (int v = 0; v < VECTORS; ++v) {
    const auto elements = select_range(loaded[v], v == 0 ? begin : 0, end - v * ROUND_ELEMENTS,
                                       transform.template identity<W>());
    if (v < VECTORS_PER_ROUND) {
      thread_partials[v].init(elements.elements(), transform);
    } else {
      thread_partials[v % VECTORS_PER_ROUND].add(elements.elements(), transform);
    }
  }
  ThreadPartial<T> partials[VECTORS_PER_ROUND];
  reduce_unaligned(thread_partials, begin, partials);
  Partial<Op, T> partial;
  if constexpr (std::is_integral_v<T>) {
    partial = warp_reduce<Op>(partials[0]);  // 32 bits suffice for this few elements
  } else {
    partial = warp_reduce_widening<Op, T, LEVEL>(warp_reduce_scatter<Op>(partials), 32,
                                                 VECTORS_PER_ROUND);
    partial = warp_reduce<Op>(partial, 1, VECTORS_PER_ROUND);
  }
  if (lane == 0) {
    const auto identity = Op::template identity<Partial<Op, T>>();
    store_result_at(problem, row * problem.outputs.stride[OUT][0],
                    transform.invert(Op::combine(identity, partial)));
  }
}

}  // namespace smem::reduce::inline SMEM_BUILD
