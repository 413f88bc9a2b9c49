// A warp reduces one segment of a row (sum/order.h), or a short row whole.
#pragma once

#include <algorithm>

#include "device/vector.h"
#include "sum/order.h"
#include "sum/sum.h"

namespace smem::sum {
inline namespace SMEM_BUILD {

/// Loads of a thread that are under way before the first is needed. By Little's law an H200's
/// multiprocessor hides its memory's latency with 26 to 40 KB in flight; with 1024 threads these
/// are 128 KB by 16-byte loads, 64 KB by single floats.
constexpr int WIDE_LOADS = 8, NARROW_LOADS = 16;

/// Runs of VEC elements at a time, lane after lane; a round takes one element of every leaf. Where
/// VEC is wider than that needs (8-bit integers, in any order the same), of two leaves. NESTED: the
/// elements lie along several loops.
template <typename T, typename Op, int VEC, bool NESTED = false>
struct Segment {
  static_assert(VEC == 1 || !NESTED, "a vector lies along one loop");

  using Acc = Accumulator<T>;

  static constexpr int VECTORS = VEC * 32 < LANES ? LANES / (VEC * 32) : 1;  ///< a thread, a round
  static constexpr int ROUND = VECTORS * VEC * 32;
  static constexpr int BATCH =
      std::min(LANES * CHAIN / ROUND, std::max(1, (VEC > 1 ? WIDE_LOADS : NARROW_LOADS) / VECTORS));

  /// Integers, in any order the same, share leaves, and save registers.
  static constexpr int LEAVES = std::is_integral_v<T> ? std::min(VEC, 4) : VEC;

  const Problem& problem;
  const T* row;

  /// The node above the segment's leaves; the identity for one beyond the end. Called by a warp.
  __device__ __forceinline__ Acc reduce(int64_t segment, Site site = Site::here()) const {
    const int most = LANES * problem.chain;
    const int64_t begin = segment * most, left = problem.count - begin;
    const int size = left < 0 ? 0 : left < most ? static_cast<int>(left) : most;
    const int lane = threadIdx.x % 32;

    Leaf<T> leaves[VECTORS][LEAVES];
#pragma unroll
    for (int j = 0; j < VECTORS; ++j) {
#pragma unroll
      for (int l = 0; l < LEAVES; ++l) leaves[j][l] = Op::template identity<Leaf<T>>();
    }
    const int whole = size / ROUND;  // rounds with no bound to test
    int round = 0;
    for (; round + BATCH <= whole; round += BATCH) {
      add_rounds<BATCH>(leaves, begin + round * ROUND + lane * VEC, site);
    }
    for (; round < whole; ++round) {
      add_rounds<1>(leaves, begin + round * ROUND + lane * VEC, site);
    }
    if (size > whole * ROUND) {
      add_last_round(leaves, begin + whole * ROUND + lane * VEC, begin + size, site);
    }

    Acc nodes[VECTORS] = {};
#pragma unroll
    for (int j = 0; j < VECTORS; ++j) {
      nodes[j] = node_above_lanes<Op, Acc>(node_above<Op>(leaves[j]));
    }
    return node_above<Op>(nodes);
  }

 private:
  __device__ __forceinline__ static void take(Leaf<T>& leaf, Leaf<T> element) {
    leaf = Op::combine(leaf, element);
  }

  __device__ __forceinline__ const T* at(int64_t i) const {
    if constexpr (VEC > 1) {
      return row + i;
    } else if constexpr (NESTED) {
      return row + call_offsets_at(problem.reduced, i).of[0];
    } else {
      return row + i * problem.reduced.stride[0][0];
    }
  }

  template <int ROUNDS>
  __device__ __forceinline__ void add_rounds(Leaf<T> (&leaves)[VECTORS][LEAVES], int64_t first,
                                             Site site) const {
    Vector<T, VEC> loaded[ROUNDS][VECTORS];
#pragma unroll
    for (int r = 0; r < ROUNDS; ++r) {
#pragma unroll
      for (int j = 0; j < VECTORS; ++j) {
        loaded[r][j] = load_vector<VEC>(at(first + r * ROUND + j * 32 * VEC), site);
      }
    }
#pragma unroll
    for (int r = 0; r < ROUNDS; ++r) {
#pragma unroll
      for (int j = 0; j < VECTORS; ++j) {
#pragma unroll
        for (int v = 0; v < VEC; ++v) {
          take(leaves[j][v % LEAVES], to_leaf(loaded[r][j].lane[v]));
        }
      }
    }
  }

  __device__ __forceinline__ void add_last_round(Leaf<T> (&leaves)[VECTORS][LEAVES], int64_t first,
                                                 int64_t end, Site site) const {
#pragma unroll
    for (int j = 0; j < VECTORS; ++j) {
      const int64_t i = first + j * 32 * VEC;
      if (VEC > 1 && i + VEC <= end) {
        const auto loaded = load_vector<VEC>(at(i), site);
#pragma unroll
        for (int v = 0; v < VEC; ++v) {
          take(leaves[j][v % LEAVES], to_leaf(loaded.lane[v]));
        }
      } else {
#pragma unroll
        for (int v = 0; v < VEC; ++v) {
          if (i + v < end) take(leaves[j][v % LEAVES], to_leaf(load(at(i + v), site)));
        }
      }
    }
  }
};

}  // namespace SMEM_BUILD
}  // namespace smem::sum
