// The same for sums of bytes.
#pragma once

#include "sum/leaf_group.h"

namespace smem::sum {
inline namespace SMEM_BUILD {

/// Bytes are summed two to a word: 5 instructions for 4 of them, where one by one takes 10. A sum
/// of 16 bits holds the 64 elements of a group. Any order gives the same bits.
template <typename T>
struct ByteGroup {
  static_assert(sizeof(T) == 1 && GROUP * CHAIN * 255 < 1 << 16, "sums fit 16 bits");

  static constexpr int VEC = 16, WORDS = VEC / 4, BATCH = 1;

  const Problem& problem;
  const T* column;

  __device__ __forceinline__ void reduce(int64_t leaf, int32_t (&nodes)[VEC],
                                         Site site = Site::here()) const {
    uint32_t even[WORDS] = {}, odd[WORDS] = {};
    const int64_t segment = leaf / LANES * LANES * problem.chain, first = segment + leaf % LANES;
    const int rounds = rounds_of(problem, problem.count - segment);
    int rows = 0;
    for (int round = 0; round < rounds; ++round) {
      rows += add(even, odd, first + round * LANES, site);
    }
#pragma unroll
    for (int v = 0; v < VEC; ++v) {
      const uint32_t word = v % 2 == 0 ? even[v / 4] : odd[v / 4];
      nodes[v] = static_cast<int32_t>(word >> (v % 4 / 2 * 16) & 0xffff) - rows * BIAS;
    }
  }

 private:
  static constexpr int BIAS = std::is_signed_v<T> ? 128 : 0;  ///< makes signed bytes unsigned

  /// Adds up to GROUP rows from `row` on; returns how many there are.
  __device__ __forceinline__ int add(uint32_t (&even)[WORDS], uint32_t (&odd)[WORDS], int64_t row,
                                     Site site) const {
    Loaded<T, VEC> loaded[GROUP];
#pragma unroll
    for (int g = 0; g < GROUP; ++g) {
      if (row + g < problem.count) {
        loaded[g] = load_words<VEC>(column + (row + g) * problem.reduced.stride[0][0], site);
      }
    }
#pragma unroll
    for (int g = 0; g < GROUP; ++g) {
      if (row + g >= problem.count) continue;
#pragma unroll
      for (int w = 0; w < WORDS; ++w) {
        const uint32_t word = loaded[g].words.lane[w] ^ (BIAS * 0x01010101u);
        even[w] += word & 0x00ff00ff;
        odd[w] += word >> 8 & 0x00ff00ff;
      }
    }
    const int64_t left = problem.count - row;
    return left < 0 ? 0 : left < GROUP ? static_cast<int>(left) : GROUP;
  }
};

}  // namespace SMEM_BUILD
}  // namespace smem::sum
