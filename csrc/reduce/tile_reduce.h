// A warp reduces one tile of a row (reduce/reduction_tree.h).
#pragma once

#include <algorithm>
#include <bit>

#include "reduce/reduce.h"
#include "reduce/thread_reduce.h"

namespace smem::reduce {
inline namespace SMEM_BUILD {

/// Loads of a thread that are under way before the first is needed. By Little's law an H200's
/// SM hides its memory's latency with 26 to 40 KB in flight; with 768 threads these
/// are 96 KB by 16-byte loads.
constexpr int LOADS_IN_FLIGHT = 8;

/// How the elements of a row are laid out in memory, which decides how a warp loads them.
enum class RowLayout {
  aligned,    ///< contiguous, from a multiple of 16 bytes on: whole vectors
  unaligned,  ///< contiguous, from any address on: whole vectors but for the first and the last
  nested,     ///< several loops; the innermost one is contiguous and consists of whole vectors
  strided,    ///< any strides: element by element
};

/// Elements before that in memory's vector.
template <typename T>
__device__ __forceinline__ int misalignment(const T* element) {
  return static_cast<int>(reinterpret_cast<uintptr_t>(element) % 16 / sizeof(T));
}

/// A round takes one element of every thread_partial: runs of VEC elements, lane after lane. Where
/// VEC is wider than that needs (8-bit integers, in any order the same), it takes two.
template <typename T, typename Op, RowLayout LAYOUT>
struct TileReduce {
  static constexpr int VEC = LAYOUT == RowLayout::strided ? 1 : VECTOR_WIDTH<T>;
  static constexpr int VECTORS_PER_ROUND =
      VEC * 32 < PARTIALS_PER_TILE ? PARTIALS_PER_TILE / (VEC * 32) : 1;  ///< a thread, a round
  static constexpr int ROUND_ELEMENTS = VECTORS_PER_ROUND * VEC * 32;
  static constexpr int LENGTH =
      PARTIALS_PER_TILE *
      tile_length_factor(sizeof(T));  ///< elements of a tile over the elements_per_partial's
  static constexpr int BATCH_ROUNDS = std::min(LENGTH * ELEMENTS_PER_PARTIAL / ROUND_ELEMENTS,
                                               std::max(1, LOADS_IN_FLIGHT / VECTORS_PER_ROUND));
  static constexpr int LANE_LEVELS = std::bit_width(unsigned{VEC}) - 1;  ///< of a lane's partial

  using Partials = ThreadPartials<T, Op, VEC>[VECTORS_PER_ROUND];

  const Problem& problem;
  const T* row;
  OrderTransform<T, Op> transform{problem};

  /// Of several loops: element i is at inner_row + i * the innermost step, up to inner_end.
  const T* inner_row = nullptr;
  int64_t inner_end = 0;

  /// The partial above the thread_partials of the tile from element `begin` on, the identity where
  /// there is none. Called by a warp, for one tile after the other.
  __device__ __forceinline__ Partial<Op, T> reduce(int64_t begin, Site site = Site::here()) {
    const int most = LENGTH * problem.elements_per_partial;
    const int64_t left = problem.count - begin;
    if (left <= 0) return Op::template identity<Partial<Op, T>>();
    const int size = left < most ? static_cast<int>(left) : most;
    const int lane = threadIdx.x % 32;

    // Slot s of round r is element 256 r + s - misaligned_by: vectors begin where memory's do. The
    // first `misaligned_by` slots of a round belong to the thread_partials at the end, one round
    // before.
    const int misaligned_by = LAYOUT == RowLayout::unaligned ? misalignment(row) : 0;
    const int64_t first = begin - misaligned_by + lane * VEC;
    Partials thread_partials;
    if constexpr (LAYOUT == RowLayout::aligned) {
      if (size == LENGTH * ELEMENTS_PER_PARTIAL) {
        add_full_tile(thread_partials, first, site);
      } else {
        add_positions(thread_partials, first, 0, size, site);
      }
    } else if constexpr (LAYOUT == RowLayout::unaligned) {
      add_positions(thread_partials, first, misaligned_by, misaligned_by + size, site);
    } else {
      int from = 0;
#pragma unroll 1
      for (; from + BATCH_ROUNDS * ROUND_ELEMENTS <= size; from += BATCH_ROUNDS * ROUND_ELEMENTS) {
        add_strided<true>(thread_partials, first + from, begin + size, site);
      }
      if (from < size) add_strided<false>(thread_partials, first + from, begin + size, site);
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
  __device__ __forceinline__ const T* at(int64_t i) {
    if constexpr (LAYOUT == RowLayout::aligned || LAYOUT == RowLayout::unaligned) return row + i;
    if (i >= inner_end) find_inner_row(i);
    return inner_row + i * (LAYOUT == RowLayout::nested ? 1 : step());
  }

  __device__ __forceinline__ int64_t step() const {
    return problem.reduced.rank > 0 ? problem.reduced.stride[0][problem.reduced.rank - 1] : 0;
  }

  /// Finds the run that element i lies in.
  __device__ __forceinline__ void find_inner_row(int64_t i) {
    const Run found = call_run_at(problem.reduced, i);
    inner_row = row + found.offset - i * step();
    inner_end = i + found.left;
  }

  template <int ROUNDS>
  __device__ __forceinline__ void add_rounds(Partials& thread_partials, int64_t first, Site site) {
    Loaded<T, VEC> loaded[ROUNDS][VECTORS_PER_ROUND] = {};
#pragma unroll
    for (int r = 0; r < ROUNDS; ++r) {
#pragma unroll
      for (int j = 0; j < VECTORS_PER_ROUND; ++j) {
        loaded[r][j] = load_words<VEC>(at(first + r * ROUND_ELEMENTS + j * 32 * VEC), site);
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

  /// Adds a whole tile. Its rounds are counted by a constant: while thread_partials are nothing
  /// yet, they hold no registers that loads could be under way to.
  __device__ __forceinline__ void add_full_tile(Partials& thread_partials, int64_t first,
                                                Site site) {
#pragma unroll
    for (int round = 0; round < LENGTH * ELEMENTS_PER_PARTIAL / ROUND_ELEMENTS;
         round += BATCH_ROUNDS) {
      add_rounds<BATCH_ROUNDS>(thread_partials, first + round * ROUND_ELEMENTS, site);
    }
  }

  /// Adds the elements in slots `begin` to before `end`. What they begin and end with may be no
  /// whole vectors.
  __device__ __forceinline__ void add_positions(Partials& thread_partials, int64_t first, int begin,
                                                int end, Site site) {
    const int position = static_cast<int>(threadIdx.x) % 32 * VEC, whole = end / VEC * VEC;
    constexpr bool ONCE = BATCH_ROUNDS * ROUND_ELEMENTS == LENGTH * ELEMENTS_PER_PARTIAL;
    for (int from = 0; from == 0 || (!ONCE && from < whole);
         from += BATCH_ROUNDS * ROUND_ELEMENTS) {
      add_vectors<BATCH_ROUNDS>(thread_partials, first + from, begin - from - position,
                                whole - from - position, site);
    }
    if (whole == end) return;
    const int least = whole == 0 ? begin : 0;
#pragma unroll
    for (int j = 0; j < VECTORS_PER_ROUND; ++j) {
      if (j * 32 * VEC + position == whole % ROUND_ELEMENTS) {
        thread_partials[j].add_range(at(first + whole - position), least, end - whole, transform,
                                     site);
      }
    }
  }

  /// Adds ROUNDS rounds' vectors, or half as many where there are no more: the elements from
  /// `begin` to before `end`, counted from the lane's first. All loads are under way at once, and
  /// none is added on a condition.
  template <int ROUNDS>
  __device__ __forceinline__ void add_vectors(Partials& thread_partials, int64_t first, int begin,
                                              int end, Site site) {
    if constexpr (ROUNDS > 2) {
      const int position = static_cast<int>(threadIdx.x) % 32 * VEC;
      if (end + position <= ROUNDS / 2 * ROUND_ELEMENTS) {
        return add_vectors<ROUNDS / 2>(thread_partials, first, begin, end, site);
      }
    }
    Loaded<T, VEC> loaded[ROUNDS][VECTORS_PER_ROUND];
#pragma unroll
    for (int r = 0; r < ROUNDS; ++r) {
#pragma unroll
      for (int j = 0; j < VECTORS_PER_ROUND; ++j) {
        const int from = r * ROUND_ELEMENTS + j * 32 * VEC;
        loaded[r][j] = transform.template identity<VEC>();
        if (from >= begin && from < end) loaded[r][j] = load_words<VEC>(at(first + from), site);
      }
    }
    if (LAYOUT == RowLayout::unaligned && begin > 0 && end > 0) {
      loaded[0][0] = load_from(at(first), begin, site);
    }
    add_loaded(thread_partials, loaded);
  }

  /// The elements from `begin` on of the vector at `from`; reads no others.
  __device__ __forceinline__ Loaded<T, VEC> load_from(const T* from, int begin, Site site) {
    auto vector = transform.template identity<VEC>().elements();
#pragma unroll
    for (int v = 1; v < VEC; ++v) {
      if (v >= begin) vector.lane[v] = load(from + v, site);
    }
    return std::bit_cast<Loaded<T, VEC>>(vector);
  }

  /// Adds BATCH_ROUNDS rounds of vectors, up to element `end`, that are found one by one. WHOLE:
  /// all are there.
  template <bool WHOLE>
  __device__ __forceinline__ void add_strided(Partials& thread_partials, int64_t first, int64_t end,
                                              Site site) {
    Loaded<T, VEC> loaded[BATCH_ROUNDS][VECTORS_PER_ROUND] = {};
#pragma unroll
    for (int r = 0; r < BATCH_ROUNDS; ++r) {
#pragma unroll
      for (int j = 0; j < VECTORS_PER_ROUND; ++j) {
        const int64_t i = first + r * ROUND_ELEMENTS + j * 32 * VEC;
        loaded[r][j] = transform.template identity<VEC>();
        if (WHOLE || i < end) loaded[r][j] = load_words<VEC>(at(i), site);
      }
    }
    add_loaded(thread_partials, loaded);
  }
};

}  // namespace SMEM_BUILD
}  // namespace smem::reduce
