// The elements of neighbouring leaves (sum/order.h) that a thread of columns takes at a time.
#pragma once

#include <algorithm>

#include "device/vector.h"
#include "sum/order.h"
#include "sum/sum.h"

namespace smem::sum {
inline namespace SMEM_BUILD {

constexpr int GROUP = 8;  ///< leaves that a thread takes at a time
/// Of a thread; by Little's law 26 to 40 KB a multiprocessor hide an H200's latency, and there are
/// 512 threads of up to 128 registers.
constexpr int BYTES_IN_FLIGHT = 128, MAX_BATCH = 4;

/// Of elements LANES apart from a segment's first leaf on, that `left` elements reach.
__device__ __forceinline__ int rounds_of(const Problem& problem, int64_t left) {
  if (left <= 0) return 0;
  const int64_t rounds = (left - 1) / LANES + 1;
  return rounds < problem.chain ? static_cast<int>(rounds) : problem.chain;
}

/// The elements of a GROUP of neighbouring leaves of VEC columns. NESTED: the elements of a column
/// lie along several loops.
template <typename T, typename Op, int VEC, bool NESTED>
struct LeafGroup {
  /// Rounds, of an element a leaf, whose loads are under way together.
  static constexpr int BATCH =
      std::clamp(BYTES_IN_FLIGHT / (GROUP * VEC * static_cast<int>(sizeof(T))), 1, MAX_BATCH);

  const Problem& problem;
  const T* column;

  __device__ __forceinline__ void reduce(int64_t leaf, Leaf<T> (&nodes)[VEC],
                                         Site site = Site::here()) const {
    Leaf<T> leaves[VEC][GROUP];
#pragma unroll
    for (int v = 0; v < VEC; ++v) {
#pragma unroll
      for (int g = 0; g < GROUP; ++g) leaves[v][g] = Op::template identity<Leaf<T>>();
    }
    const int64_t first = leaf / LANES * LANES * problem.chain + leaf % LANES;
    // Rounds that all leaves of the segment have an element in, and those that any has: the same
    // for all threads that share it.
    const int64_t left = problem.count - leaf / LANES * LANES * problem.chain;
    const int whole = rounds_of(problem, left - (LANES - 1)), rounds = rounds_of(problem, left);
    const int round = add_whole<BATCH>(leaves, first, 0, whole, site);
    if (round < rounds) add<1, false>(leaves, first, round, site);
#pragma unroll
    for (int v = 0; v < VEC; ++v) nodes[v] = node_above<Op>(leaves[v]);
  }

  /// BATCH groups at once, of leaves that have one element at most.
  __device__ __forceinline__ void reduce_single(int64_t leaf, Leaf<T> (&nodes)[BATCH][VEC],
                                                Site site = Site::here()) const {
    Loaded<T, VEC> loaded[BATCH][GROUP];
#pragma unroll
    for (int b = 0; b < BATCH; ++b) {
#pragma unroll
      for (int g = 0; g < GROUP; ++g) {
        const int64_t i = leaf + b * GROUP + g;
        if (i < problem.count) loaded[b][g] = load_words<VEC>(at(i), site);
      }
    }
#pragma unroll
    for (int b = 0; b < BATCH; ++b) {
#pragma unroll
      for (int v = 0; v < VEC; ++v) {
        Leaf<T> leaves[GROUP];
#pragma unroll
        for (int g = 0; g < GROUP; ++g) {
          leaves[g] = Op::template identity<Leaf<T>>();
          if (leaf + b * GROUP + g < problem.count) {
            leaves[g] = Op::combine(leaves[g], to_leaf(loaded[b][g].elements().lane[v]));
          }
        }
        nodes[b][v] = node_above<Op>(leaves);
      }
    }
  }

 private:
  /// Adds rounds up to `whole`, as many at a time as there are; returns `whole`.
  template <int ROUNDS>
  __device__ __forceinline__ int add_whole(Leaf<T> (&leaves)[VEC][GROUP], int64_t first, int round,
                                           int whole, Site site) const {
    for (; round + ROUNDS <= whole; round += ROUNDS) add<ROUNDS, true>(leaves, first, round, site);
    if constexpr (ROUNDS > 1) return add_whole<ROUNDS / 2>(leaves, first, round, whole, site);
    return round;
  }

  template <int ROUNDS, bool WHOLE>
  __device__ __forceinline__ void add(Leaf<T> (&leaves)[VEC][GROUP], int64_t first, int round,
                                      Site site) const {
    Loaded<T, VEC> loaded[ROUNDS][GROUP] = {};
    const int64_t row = first + round * LANES;
#pragma unroll
    for (int r = 0; r < ROUNDS; ++r) {
#pragma unroll
      for (int g = 0; g < GROUP; ++g) {
        const int64_t i = row + r * LANES + g;
        if (WHOLE || i < problem.count) loaded[r][g] = load_words<VEC>(at(i), site);
      }
    }
#pragma unroll
    for (int r = 0; r < ROUNDS; ++r) {
#pragma unroll
      for (int g = 0; g < GROUP; ++g) {
        if (WHOLE || row + g < problem.count) {
          const Vector<T, VEC> elements = loaded[r][g].elements();
#pragma unroll
          for (int v = 0; v < VEC; ++v) {
            leaves[v][g] = Op::combine(leaves[v][g], to_leaf(elements.lane[v]));
          }
        }
      }
    }
  }

  __device__ __forceinline__ const T* at(int64_t row) const {
    if constexpr (NESTED) return column + call_offsets_at(problem.reduced, row).of[0];
    return column + row * problem.reduced.stride[0][0];
  }
};

}  // namespace SMEM_BUILD
}  // namespace smem::sum
