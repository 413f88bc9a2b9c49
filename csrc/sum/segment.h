// A warp reduces one segment of a row (sum/order.h).
#pragma once

#include <algorithm>
#include <bit>

#include "sum/leaves.h"
#include "sum/sum.h"

namespace smem::sum {
inline namespace SMEM_BUILD {

/// Loads of a thread that are under way before the first is needed. By Little's law an H200's
/// multiprocessor hides its memory's latency with 26 to 40 KB in flight; with 768 threads these
/// are 96 KB by 16-byte loads.
constexpr int LOADS = 8;

/// How the elements of a row lie in memory.
enum class Lie {
  aligned,   ///< side by side, from a multiple of 16 bytes on
  shifted,   ///< side by side, from anywhere on
  nested,    ///< along several loops, the innermost in whole vectors of 16 bytes
  anywhere,  ///< element by element
};

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
  /// Whether a segment that is not whole takes its loads at once. (Where a lane has several vectors
  /// a round, nvcc then keeps the leaves in local memory: a last vector may be any of them.)
  static constexpr bool ENDS_AT_ONCE = LIE == Lie::aligned && VECTORS == 1;
  static constexpr int LEVEL = std::bit_width(unsigned{VEC}) - 1;  ///< of a lane's node

  using Slots = Leaves<T, Op, VEC>[VECTORS];

  const Problem& problem;
  const T* row;

  /// Of several loops: element i is at run + i * the innermost step, up to run_end.
  const T* run = nullptr;
  int64_t run_end = 0;

  /// The node above the leaves of a segment that has any. Called by a warp, for one segment after
  /// the other. WHOLE: it may be as long as segments are.
  template <bool WHOLE = true>
  __device__ __forceinline__ Node<Op, T> reduce(int64_t segment, Site site = Site::here()) {
    const int most = LENGTH * problem.chain;
    const int64_t begin = segment * most, left = problem.count - begin;
    const int size = left < most ? static_cast<int>(left) : most;
    const int lane = threadIdx.x % 32;

    // Slot s of round r is element 256 r + s - shift: vectors begin where memory's do. The first
    // `shift` slots of a round belong to the leaves at the end, one round before.
    const int shift = LIE == Lie::shifted ? misalignment(row) : 0;
    const int64_t first = begin - shift + lane * VEC;
    Slots leaves;
    if (LIE == Lie::shifted && first < begin) {
      leaves[0].add_some(row + first, shift, VEC < shift + size ? VEC : shift + size, site);
    }
    if (ENDS_AT_ONCE && (!WHOLE || size < LENGTH * CHAIN)) {
      add_end(leaves, first, size, site);
    } else {
      const int whole = (shift + size) / ROUND;  // rounds with no end to test
      const int round = add_whole<BATCH>(leaves, first, begin, 0, whole, site);
      if (shift + size > whole * ROUND) {
        add_last(leaves, first + round * ROUND, begin, begin + size, site);
      }
    }
    if constexpr (LIE == Lie::shifted && !std::is_integral_v<T>) realign(leaves, shift);

    Leaf<T> nodes[VECTORS];
#pragma unroll
    for (int j = 0; j < VECTORS; ++j) nodes[j] = leaves[j].node();
    const auto node = node_above_row<Op, T, LEVEL>(scatter_over_lanes<Op>(nodes), 32, VECTORS);
    return node_above_lanes<Op>(node, 1, VECTORS);
  }

 private:
  __device__ __forceinline__ static int misalignment(const T* pointer) {
    return static_cast<int>(reinterpret_cast<uintptr_t>(pointer) % 16 / sizeof(T));
  }

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

  /// Adds rounds up to `whole`, as many at a time as there are; returns `whole`.
  template <int ROUNDS>
  __device__ __forceinline__ int add_whole(Slots& leaves, int64_t first, int64_t begin, int round,
                                           int whole, Site site) {
    for (; round + ROUNDS <= whole; round += ROUNDS) {
      add_rounds<ROUNDS>(leaves, first + round * ROUND, begin, site);
    }
    if constexpr (ROUNDS > 1) {
      return add_whole<ROUNDS / 2>(leaves, first, begin, round, whole, site);
    }
    return round;
  }

  template <int ROUNDS>
  __device__ __forceinline__ void add_rounds(Slots& leaves, int64_t first, int64_t begin,
                                             Site site) {
    Loaded<T, VEC> loaded[ROUNDS][VECTORS];
    // The vector that begins before the row has been added already.
    const bool has_first = LIE != Lie::shifted || first >= begin;
#pragma unroll
    for (int r = 0; r < ROUNDS; ++r) {
#pragma unroll
      for (int j = 0; j < VECTORS; ++j) {
        if (r + j > 0 || has_first) {
          loaded[r][j] = load_words<VEC>(at(first + r * ROUND + j * 32 * VEC), site);
        }
      }
    }
#pragma unroll
    for (int r = 0; r < ROUNDS; ++r) {
#pragma unroll
      for (int j = 0; j < VECTORS; ++j) {
        if (r + j > 0 || has_first) leaves[j].add(loaded[r][j].elements());
      }
    }
  }

  /// Adds a row's last segment, of `size` elements: as many loads at once as of a whole one.
  __device__ __forceinline__ void add_end(Slots& leaves, int64_t first, int size, Site site) {
    const int slot = static_cast<int>(threadIdx.x) % 32 * VEC, whole = size / VEC * VEC;
    for (int round = 0; round * ROUND < whole; round += BATCH) {
      Loaded<T, VEC> loaded[BATCH];
#pragma unroll
      for (int r = 0; r < BATCH; ++r) {
        const int from = (round + r) * ROUND;
        loaded[r] = vector_of_identity<T, Op, VEC>();
        if (from + slot < whole) loaded[r] = load_words<VEC>(at(first + from), site);
      }
#pragma unroll
      for (int r = 0; r < BATCH; ++r) leaves[0].add(loaded[r].elements());
    }
    // The last vector, where it is not whole.
    if (whole == size || slot != whole % ROUND) return;
    leaves[0].add_some(at(first + whole - slot), 0, size - whole, site);
  }

  __device__ __forceinline__ void add_last(Slots& leaves, int64_t first, int64_t begin, int64_t end,
                                           Site site) {
#pragma unroll
    for (int j = 0; j < VECTORS; ++j) {
      const int64_t i = first + j * 32 * VEC;
      if (i < begin || i >= end) continue;
      if (i + VEC <= end) {
        leaves[j].add(load_vector<VEC>(at(i), site));
      } else {
        leaves[j].add_some(at(i), 0, static_cast<int>(end - i), site);
      }
    }
  }

  /// Moves every leaf `shift` slots down, the first ones to the end.
  __device__ __forceinline__ static void realign(Slots& leaves, int shift) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int step = 1; step < VEC; step *= 2) {
      if ((shift & step) == 0) continue;
      Slots moved;
#pragma unroll
      for (int j = 0; j < VECTORS; ++j) {
#pragma unroll
        for (int v = 0; v < VEC; ++v) {
          const int from = (v + step) % VEC;
          if (v + step < VEC) {
            moved[j].leaf[v] = leaves[j].leaf[from];
            continue;
          }
          // The next lane's; after the last lane comes the first one's next vector.
          const int next = lane == 0 ? (j + 1) % VECTORS : j;
          Leaf<T> mine = leaves[0].leaf[from];
#pragma unroll
          for (int k = 1; k < VECTORS; ++k) mine = k == next ? leaves[k].leaf[from] : mine;
          moved[j].leaf[v] = __shfl_sync(ALL_LANES, mine, (lane + 1) % 32);
        }
      }
#pragma unroll
      for (int j = 0; j < VECTORS; ++j) leaves[j] = moved[j];
    }
  }
};

}  // namespace SMEM_BUILD
}  // namespace smem::sum
