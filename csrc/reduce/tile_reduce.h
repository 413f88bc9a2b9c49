// A warp reduces one segment of a row (reduce/reduction_tree.h).
#pragma once

#include <algorithm>
#include <bit>

#include "reduce/thread_reduce.h"
#include "reduce/reduce.h"

namespace smem::reduce {
inline namespace SMEM_BUILD {

/// Loads of a thread that are under way before the first is needed. By Little's law an H200's
/// SM hides its memory's latency with 26 to 40 KB in flight; with 768 threads these
/// are 96 KB by 16-byte loads.
constexpr int LOADS = 8;

/// How the elements of a row lie in memory.
enum class Lie {
  aligned,   ///< side by side, from a multiple of 16 bytes on
  shifted,   ///< side by side, from anywhere on
  nested,    ///< along several loops, the innermost in whole vectors of 16 bytes
  anywhere,  ///< element by element
};

/// Elements before that in memory's vector.
template <typename T>
__device__ __forceinline__ int misalignment(const T* element) {
  return static_cast<int>(reinterpret_cast<uintptr_t>(element) % 16 / sizeof(T));
}

/// A round takes one element of every leaf: runs of VEC elements, lane after lane. Where VEC is
/// wider than that needs (8-bit integers, in any order the same), it takes two.
template <typename T, typename Op, Lie LIE>
struct Segment {
  static constexpr int VEC = LIE == Lie::anywhere ? 1 : VECTOR_WIDTH<T>;
  static constexpr int VECTORS = VEC * 32 < LANES ? LANES / (VEC * 32) : 1;  ///< a thread, a round
  static constexpr int ROUND = VECTORS * VEC * 32;
  static constexpr int LENGTH =
      LANES * span_of(sizeof(T));  ///< elements of a segment over the chain's
  static constexpr int BATCH = std::min(LENGTH * CHAIN / ROUND, std::max(1, LOADS / VECTORS));
  static constexpr int LEVEL = std::bit_width(unsigned{VEC}) - 1;  ///< of a lane's node

  using Slots = Leaves<T, Op, VEC>[VECTORS];

  const Problem& problem;
  const T* row;
  Turn<T, Op> turn{problem};

  /// Of several loops: element i is at run + i * the innermost step, up to run_end.
  const T* run = nullptr;
  int64_t run_end = 0;

  /// The node above the leaves of the segment from element `begin` on, the identity where there is
  /// none. Called by a warp, for one segment after the other.
  __device__ __forceinline__ Node<Op, T> reduce(int64_t begin, Site site = Site::here()) {
    const int most = LENGTH * problem.chain;
    const int64_t left = problem.count - begin;
    if (left <= 0) return Op::template identity<Node<Op, T>>();
    const int size = left < most ? static_cast<int>(left) : most;
    const int lane = threadIdx.x % 32;

    // Slot s of round r is element 256 r + s - shift: vectors begin where memory's do. The first
    // `shift` slots of a round belong to the leaves at the end, one round before.
    const int shift = LIE == Lie::shifted ? misalignment(row) : 0;
    const int64_t first = begin - shift + lane * VEC;
    Slots leaves;
    if constexpr (LIE == Lie::aligned) {
      if (size == LENGTH * CHAIN) {
        add_all(leaves, first, site);
      } else {
        add_slots(leaves, first, 0, size, site);
      }
    } else if constexpr (LIE == Lie::shifted) {
      add_slots(leaves, first, shift, shift + size, site);
    } else {
      int from = 0;
#pragma unroll 1
      for (; from + BATCH * ROUND <= size; from += BATCH * ROUND) {
        add_found<true>(leaves, first + from, begin + size, site);
      }
      if (from < size) add_found<false>(leaves, first + from, begin + size, site);
    }
    Leaf<T> nodes[VECTORS] = {};
    if constexpr (LIE == Lie::shifted) {
      nodes_from(leaves, shift, nodes);
    } else {
#pragma unroll
      for (int j = 0; j < VECTORS; ++j) nodes[j] = leaves[j].node();
    }
    const auto node = node_above_row<Op, T, LEVEL>(scatter_over_lanes<Op>(nodes), 32, VECTORS);
    return node_above_lanes<Op>(node, 1, VECTORS);
  }

 private:
  __device__ __forceinline__ const T* at(int64_t i) {
    if constexpr (LIE == Lie::aligned || LIE == Lie::shifted) return row + i;
    if (i >= run_end) begin_run(i);
    return run + i * (LIE == Lie::nested ? 1 : step());
  }

  __device__ __forceinline__ int64_t step() const {
    return problem.reduced.rank > 0 ? problem.reduced.stride[0][problem.reduced.rank - 1] : 0;
  }

  /// Finds the run that element i lies in.
  __device__ __forceinline__ void begin_run(int64_t i) {
    const Run found = call_run_at(problem.reduced, i);
    run = row + found.offset - i * step();
    run_end = i + found.left;
  }

  template <int ROUNDS>
  __device__ __forceinline__ void add_rounds(Slots& leaves, int64_t first, Site site) {
    Loaded<T, VEC> loaded[ROUNDS][VECTORS] = {};
#pragma unroll
    for (int r = 0; r < ROUNDS; ++r) {
#pragma unroll
      for (int j = 0; j < VECTORS; ++j) {
        loaded[r][j] = load_words<VEC>(at(first + r * ROUND + j * 32 * VEC), site);
      }
    }
    add_loaded(leaves, loaded);
  }

  template <int ROUNDS>
  __device__ __forceinline__ void add_loaded(Slots& leaves,
                                             const Loaded<T, VEC> (&loaded)[ROUNDS][VECTORS]) {
#pragma unroll
    for (int r = 0; r < ROUNDS; ++r) {
#pragma unroll
      for (int j = 0; j < VECTORS; ++j) leaves[j].add(loaded[r][j].elements(), turn);
    }
  }

  /// Adds a whole segment. Its rounds are counted by a constant: while leaves are nothing yet, they
  /// hold no registers that loads could be under way to.
  __device__ __forceinline__ void add_all(Slots& leaves, int64_t first, Site site) {
#pragma unroll
    for (int round = 0; round < LENGTH * CHAIN / ROUND; round += BATCH) {
      add_rounds<BATCH>(leaves, first + round * ROUND, site);
    }
  }

  /// Adds the elements in slots `begin` to before `end`. What they begin and end with may be no
  /// whole vectors.
  __device__ __forceinline__ void add_slots(Slots& leaves, int64_t first, int begin, int end,
                                            Site site) {
    const int slot = static_cast<int>(threadIdx.x) % 32 * VEC, whole = end / VEC * VEC;
    constexpr bool ONCE = BATCH * ROUND == LENGTH * CHAIN;
    for (int from = 0; from == 0 || (!ONCE && from < whole); from += BATCH * ROUND) {
      add_vectors<BATCH>(leaves, first + from, begin - from - slot, whole - from - slot, site);
    }
    if (whole == end) return;
    const int least = whole == 0 ? begin : 0;
#pragma unroll
    for (int j = 0; j < VECTORS; ++j) {
      if (j * 32 * VEC + slot == whole % ROUND) {
        leaves[j].add_some(at(first + whole - slot), least, end - whole, turn, site);
      }
    }
  }

  /// Adds ROUNDS rounds' vectors, or half as many where there are no more: the elements from
  /// `begin` to before `end`, counted from the lane's first. All loads are under way at once, and
  /// none is added on a condition.
  template <int ROUNDS>
  __device__ __forceinline__ void add_vectors(Slots& leaves, int64_t first, int begin, int end,
                                              Site site) {
    if constexpr (ROUNDS > 2) {
      const int slot = static_cast<int>(threadIdx.x) % 32 * VEC;
      if (end + slot <= ROUNDS / 2 * ROUND) {
        return add_vectors<ROUNDS / 2>(leaves, first, begin, end, site);
      }
    }
    Loaded<T, VEC> loaded[ROUNDS][VECTORS];
#pragma unroll
    for (int r = 0; r < ROUNDS; ++r) {
#pragma unroll
      for (int j = 0; j < VECTORS; ++j) {
        const int from = r * ROUND + j * 32 * VEC;
        loaded[r][j] = turn.template identity<VEC>();
        if (from >= begin && from < end) loaded[r][j] = load_words<VEC>(at(first + from), site);
      }
    }
    if (LIE == Lie::shifted && begin > 0 && end > 0) {
      loaded[0][0] = load_from(at(first), begin, site);
    }
    add_loaded(leaves, loaded);
  }

  /// The elements from `begin` on of the vector at `from`; reads no others.
  __device__ __forceinline__ Loaded<T, VEC> load_from(const T* from, int begin, Site site) {
    auto vector = turn.template identity<VEC>().elements();
#pragma unroll
    for (int v = 1; v < VEC; ++v) {
      if (v >= begin) vector.lane[v] = load(from + v, site);
    }
    return std::bit_cast<Loaded<T, VEC>>(vector);
  }

  /// Adds BATCH rounds of vectors, up to element `end`, that are found one by one. WHOLE: all are
  /// there.
  template <bool WHOLE>
  __device__ __forceinline__ void add_found(Slots& leaves, int64_t first, int64_t end, Site site) {
    Loaded<T, VEC> loaded[BATCH][VECTORS] = {};
#pragma unroll
    for (int r = 0; r < BATCH; ++r) {
#pragma unroll
      for (int j = 0; j < VECTORS; ++j) {
        const int64_t i = first + r * ROUND + j * 32 * VEC;
        loaded[r][j] = turn.template identity<VEC>();
        if (WHOLE || i < end) loaded[r][j] = load_words<VEC>(at(i), site);
      }
    }
    add_loaded(leaves, loaded);
  }
};

}  // namespace SMEM_BUILD
}  // namespace smem::reduce
