// A warp reduces one tile of a row (reduce/reduction_tree.h).
//
//   round 0   | lane 0: VEC elements | lane 1: VEC elements | ... | lane 31 |   256 elements
//   round 1   | lane 0               | lane 1               | ... | lane 31 |   256 elements
//     :                                                                         (8 rounds per tile)
//
// Every lane adds one or more vectors of each round to its thread partials, which it then combines
// with those of the other lanes by shuffles. The order of additions is that of the reduction tree
// for every RowLayout. LOADS_IN_FLIGHT may be tuned: it changes registers and speed, not the bits.
#pragma once

#include <algorithm>
#include <bit>

#include "reduce/reduce.h"
#include "reduce/thread_reduce.h"
#include "reduce/two_loops.h"

namespace smem::reduce::inline SMEM_BUILD {

/// Loads per thread that are issued before the first one is needed. By Little's law an SM of an
/// H200 hides the memory latency with 26 to 40 KB in flight; 768 threads with 8 loads of 16 bytes
/// have 96 KB in flight.
constexpr int LOADS_IN_FLIGHT = 8;
/// Rounds of single elements along two loops that are in flight together, with 8 loads per lane
/// each. With one round, three blocks of float32 have 24 KB in flight per SM; with four, large
/// problems take up to 17% longer than with two, and small ones 10% less.
constexpr int STRIDED_ROUNDS_IN_FLIGHT = 2;

/// How the elements of a row are laid out in memory, which decides how a warp loads them.
enum class RowLayout {
  aligned,    ///< contiguous, from a multiple of 16 bytes on: whole vectors
  unaligned,  ///< contiguous, from any address on: whole vectors but for the first and the last
  nested,     ///< several loops; the innermost one is contiguous and consists of whole vectors
  strided,    ///< any strides: element by element
};

/// Elements between the 16-byte boundary before `element` and `element`.
template <typename T>
__device__ __forceinline__ int misalignment(const T* element) {
  return static_cast<int>(reinterpret_cast<uintptr_t>(element) % 16 / sizeof(T));
}

/// In one round, every thread partial of the tile gets one element; lane l loads VEC neighbouring
/// elements. A tile of 1-byte integers, for which every order gives the same bits, has two elements
/// per thread partial and round.
template <typename T, typename Op, RowLayout LAYOUT>
struct TileReduce {
  static constexpr int VEC = LAYOUT == RowLayout::strided ? 1 : VECTOR_WIDTH<T>;
  static constexpr int VECTORS_PER_ROUND =
      VEC * 32 < PARTIALS_PER_TILE ? PARTIALS_PER_TILE / (VEC * 32) : 1;  ///< per lane and round
  static constexpr int ROUND_ELEMENTS = VECTORS_PER_ROUND * VEC * 32;
  static constexpr int LENGTH =
      PARTIALS_PER_TILE *
      tile_length_factor(sizeof(T));  ///< elements of a tile over elements_per_partial
  static constexpr int BATCH_ROUNDS = std::min(LENGTH * ELEMENTS_PER_PARTIAL / ROUND_ELEMENTS,
                                               std::max(1, LOADS_IN_FLIGHT / VECTORS_PER_ROUND));
  /// log2 of the thread partials per vector
  static constexpr int LANE_LEVELS = std::bit_width(unsigned{VEC}) - 1;

  using Partials = ThreadPartials<T, Op, VEC>[VECTORS_PER_ROUND];

  const Problem& problem;
  const TwoLoops* loops;  ///< of nested and strided rows
  const T* row;
  OrderTransform<T, Op> transform{problem};

  /// For nested and strided rows that are not along two loops: element i is at inner_row + i *
  /// (innermost stride), for i < inner_end.
  const T* inner_row = nullptr;
  int64_t inner_end = 0;

  /// The partial above the tile that begins at element `begin`, or the identity if there is no such
  /// element. Called by a warp, for its tiles in ascending order.
  __device__ __forceinline__ Partial<Op, T> reduce(int64_t begin) {
    const int max_size = LENGTH * problem.elements_per_partial;
    const int64_t left = problem.count - begin;
    if (left <= 0) return Op::template identity<Partial<Op, T>>();
    const int size = left < max_size ? static_cast<int>(left) : max_size;
    const int lane = threadIdx.x % 32;

    // Loads are aligned to 16 bytes: position p of round r holds element 256 r + p - misaligned_by.
    // The first `misaligned_by` positions of a round therefore belong to the last thread partials,
    // one round earlier.
    const int misaligned_by = LAYOUT == RowLayout::unaligned ? misalignment(row) : 0;
    const int64_t first = begin - misaligned_by + lane * VEC;
    Partials thread_partials;
    if constexpr (LAYOUT == RowLayout::aligned) {
      if (size == LENGTH * ELEMENTS_PER_PARTIAL) {
        add_full_tile(thread_partials, first);
      } else {
        add_positions(thread_partials, first, 0, size);
      }
    } else if constexpr (LAYOUT == RowLayout::unaligned) {
      add_positions(thread_partials, first, misaligned_by, misaligned_by + size);
    } else if (loops->exist) {
      constexpr int ROUNDS = LAYOUT == RowLayout::strided ? STRIDED_ROUNDS_IN_FLIGHT : BATCH_ROUNDS;
      const auto at = [&](int64_t i) { return row + offset_at(*loops, i); };
      int from = add_whole_rounds<ROUNDS>(thread_partials, first, 0, size, at);
      if (ROUNDS > BATCH_ROUNDS)
        from = add_whole_rounds<BATCH_ROUNDS>(thread_partials, first, from, size, at);
      if (from < size)
        add_strided<BATCH_ROUNDS, false>(thread_partials, first + from, begin + size, at);
    } else {
#pragma unroll 1
      for (int from = 0; from < size; from += BATCH_ROUNDS * ROUND_ELEMENTS) {
        add_strided<BATCH_ROUNDS, false>(thread_partials, first + from, begin + size,
                                         [&](int64_t i) { return at_inner_row(i); });
      }
    }
    ThreadPartial<T> partials[VECTORS_PER_ROUND] = {};
    if constexpr (LAYOUT == RowLayout::unaligned) {
      reduce_unaligned(thread_partials, misaligned_by, partials);
    } else {
#pragma unroll
      for (int j = 0; j < VECTORS_PER_ROUND; ++j) partials[j] = thread_partials[j].reduce();
    }
    const auto partial = warp_reduce_widening<Op, T, LANE_LEVELS>(warp_reduce_scatter<Op>(partials),
                                                                  32, VECTORS_PER_ROUND);
    return warp_reduce<Op>(partial, 1, VECTORS_PER_ROUND);
  }

 private:
  __device__ __forceinline__ const T* at_inner_row(int64_t i) {
    if (i >= inner_end) find_inner_row(i);
    return inner_row + i * (LAYOUT == RowLayout::nested ? 1 : inner_stride());
  }

  __device__ __forceinline__ int64_t inner_stride() const {
    return problem.reduced.rank > 0 ? problem.reduced.stride[0][problem.reduced.rank - 1] : 0;
  }

  /// Finds the innermost loop's iteration that holds element i.
  __device__ __forceinline__ void find_inner_row(int64_t i) {
    const Run found = call_run_at(problem.reduced, i);
    inner_row = row + found.offset - i * inner_stride();
    inner_end = i + found.left;
  }

  template <int ROUNDS>
  __device__ __forceinline__ void add_rounds(Partials& thread_partials, int64_t first) {
    Loaded<T, VEC> loaded[ROUNDS][VECTORS_PER_ROUND] = {};
#pragma unroll
    for (int r = 0; r < ROUNDS; ++r) {
#pragma unroll
      for (int j = 0; j < VECTORS_PER_ROUND; ++j) {
        loaded[r][j] = load_words<VEC>(row + first + r * ROUND_ELEMENTS + j * 32 * VEC);
      }
    }
    add_loaded(thread_partials, loaded);
  }

  template <int ROUNDS>
  __device__ __forceinline__ void add_loaded(
      Partials& thread_partials, const Loaded<T, VEC> (&loaded)[ROUNDS][VECTORS_PER_ROUND]) {
#pragma unroll
    for (int r = 0; r < ROUNDS; ++r) {
#pragma unroll
      for (int j = 0; j < VECTORS_PER_ROUND; ++j)
        thread_partials[j].add(loaded[r][j].elements(), transform);
    }
  }

  /// Adds a whole tile. The number of rounds is a compile-time constant, so nvcc can use the
  /// registers of thread partials that do not exist yet for loads in flight.
  __device__ __forceinline__ void add_full_tile(Partials& thread_partials, int64_t first) {
#pragma unroll
    for (int round = 0; round < LENGTH * ELEMENTS_PER_PARTIAL / ROUND_ELEMENTS;
         round += BATCH_ROUNDS) {
      add_rounds<BATCH_ROUNDS>(thread_partials, first + round * ROUND_ELEMENTS);
    }
  }

  /// Adds the elements at positions `begin` to `end` - 1. The first and the last vector may be
  /// partial.
  __device__ __forceinline__ void add_positions(Partials& thread_partials, int64_t first, int begin,
                                                int end) {
    const int position = static_cast<int>(threadIdx.x) % 32 * VEC, full_end = end / VEC * VEC;
    constexpr bool ONCE = BATCH_ROUNDS * ROUND_ELEMENTS == LENGTH * ELEMENTS_PER_PARTIAL;
    for (int from = 0; from == 0 || (!ONCE && from < full_end);
         from += BATCH_ROUNDS * ROUND_ELEMENTS) {
      add_vectors<BATCH_ROUNDS>(thread_partials, first + from, begin - from - position,
                                full_end - from - position);
    }
    if (full_end == end) return;
    const int range_begin = full_end == 0 ? begin : 0;
#pragma unroll
    for (int j = 0; j < VECTORS_PER_ROUND; ++j) {
      if (j * 32 * VEC + position == full_end % ROUND_ELEMENTS) {
        thread_partials[j].add_range(row + first + full_end - position, range_begin, end - full_end,
                                     transform);
      }
    }
  }

  /// Adds ROUNDS rounds of vectors, or half as many if the tile has no more: the elements `begin`
  /// to `end` - 1, counted from the lane's first. All loads are in flight at once, and every
  /// addition is unconditional.
  template <int ROUNDS>
  __device__ __forceinline__ void add_vectors(Partials& thread_partials, int64_t first, int begin,
                                              int end) {
    if constexpr (ROUNDS > 2) {
      const int position = static_cast<int>(threadIdx.x) % 32 * VEC;
      if (end + position <= ROUNDS / 2 * ROUND_ELEMENTS) {
        return add_vectors<ROUNDS / 2>(thread_partials, first, begin, end);
      }
    }
    Loaded<T, VEC> loaded[ROUNDS][VECTORS_PER_ROUND];
#pragma unroll
    for (int r = 0; r < ROUNDS; ++r) {
#pragma unroll
      for (int j = 0; j < VECTORS_PER_ROUND; ++j) {
        const int from = r * ROUND_ELEMENTS + j * 32 * VEC;
        loaded[r][j] = transform.template identity<VEC>();
        if (from >= begin && from < end) loaded[r][j] = load_words<VEC>(row + first + from);
      }
    }
    if (LAYOUT == RowLayout::unaligned && begin > 0 && end > 0) {
      loaded[0][0] = load_from(row + first, begin);
    }
    add_loaded(thread_partials, loaded);
  }

  /// The elements from `begin` on of the vector at `from`; reads no others.
  __device__ __forceinline__ Loaded<T, VEC> load_from(const T* from, int begin) {
    auto vector = transform.template identity<VEC>().elements();
#pragma unroll
    for (int v = 1; v < VEC; ++v) {
      if (v >= begin) vector.lane[v] = from[v];
    }
    return std::bit_cast<Loaded<T, VEC>>(vector);
  }

  /// Adds batches of ROUNDS rounds from element `from` of the tile on, as long as all of their
  /// elements exist. Returns where it ends.
  template <int ROUNDS, typename At>
  __device__ __forceinline__ int add_whole_rounds(Partials& thread_partials, int64_t first,
                                                  int from, int size, const At& at) {
#pragma unroll 1
    for (; from + ROUNDS * ROUND_ELEMENTS <= size; from += ROUNDS * ROUND_ELEMENTS)
      add_strided<ROUNDS, true>(thread_partials, first + from, 0, at);
    return from;
  }

  /// Adds ROUNDS rounds of vectors, up to element `end`, whose addresses are computed one by one:
  /// element i is at `at(i)`. WHOLE: all of them exist.
  template <int ROUNDS, bool WHOLE, typename At>
  __device__ __forceinline__ void add_strided(Partials& thread_partials, int64_t first, int64_t end,
                                              const At& at) {
    Loaded<T, VEC> loaded[ROUNDS][VECTORS_PER_ROUND] = {};
#pragma unroll
    for (int r = 0; r < ROUNDS; ++r) {
#pragma unroll
      for (int j = 0; j < VECTORS_PER_ROUND; ++j) {
        const int64_t i = first + r * ROUND_ELEMENTS + j * 32 * VEC;
        loaded[r][j] = transform.template identity<VEC>();
        if (WHOLE || i < end) loaded[r][j] = load_words<VEC>(at(i));
      }
    }
    add_loaded(thread_partials, loaded);
  }
};

}  // namespace smem::reduce::inline SMEM_BUILD
