// What a thread of columns makes of the rows that it is handed, a vector of 16 bytes each: the node
// above its leaves in each of its columns.
#pragma once

#include "device/vector.h"
#include "reduce/thread_reduce.h"
#include "reduce/reduction_tree.h"

namespace smem::reduce {
inline namespace SMEM_BUILD {

/// Rows that come together, of neighbouring leaves: 4 rows of 8 columns are 32 sums.
constexpr int STAGE_ROWS = 4, STAGE_LEVELS = 2;

template <typename T, int W = VECTOR_WIDTH<T>>
using RowVector = Loaded<T, W>;

/// In the order of reduce/reduction_tree.h.
template <typename T, typename Op, int W>
class InOrder {
 public:
  __device__ __forceinline__ explicit InOrder(const Turn<T, Op>& turn) : turn_(turn) {}
  __device__ __forceinline__ void begin() {
#pragma unroll
    for (int c = 0; c < W; ++c) {
#pragma unroll
      for (int r = 0; r < STAGE_ROWS; ++r) leaves_[c][r] = Op::template identity<Leaf<T>>();
    }
  }
  /// Adds a row to leaf r of the group.
  __device__ __forceinline__ void add(int r, const RowVector<T, W>& row) {
    const Vector<T, W> elements = row.elements();
#pragma unroll
    for (int c = 0; c < W; ++c) {
      leaves_[c][r] = Op::combine(leaves_[c][r], turn_.leaf(elements, c));
    }
  }
  /// Ends group `g`, the last of which is the last of a power of two.
  __device__ __forceinline__ void end(int g) {
#pragma unroll
    for (int c = 0; c < W; ++c) node_[c] = counters_[c].push(g, node_above<Op>(leaves_[c]));
  }
  __device__ __forceinline__ Leaf<T> node(int c) const { return node_[c]; }

 private:
  Turn<T, Op> turn_;
  Leaf<T> leaves_[W][STAGE_ROWS], node_[W] = {};
  Counter<Op, Leaf<T>, NARROW_LEVELS - STAGE_LEVELS> counters_[W];
};

/// Integers: any order gives the same bits.
template <typename T, typename Op, int W>
class AnyOrder {
 public:
  __device__ __forceinline__ explicit AnyOrder(const Turn<T, Op>& turn) : turn_(turn) {
#pragma unroll
    for (int c = 0; c < W; ++c) node_[c] = Op::template identity<Leaf<T>>();
  }
  __device__ __forceinline__ void begin() {}
  __device__ __forceinline__ void add(int, const RowVector<T, W>& row) {
    const Vector<T, W> elements = row.elements();
#pragma unroll
    for (int c = 0; c < W; ++c) node_[c] = Op::combine(node_[c], turn_.leaf(elements, c));
  }
  __device__ __forceinline__ void end(int) {}
  __device__ __forceinline__ Leaf<T> node(int c) const { return node_[c]; }

 private:
  Turn<T, Op> turn_;
  Leaf<T> node_[W];
};

/// Sums of bytes, two to a word: 5 instructions for 4 of them, where one by one takes 10. A sum of
/// 16 bits holds the elements of the 2^5 leaves that a thread has.
template <typename T>
class ByWords {
 public:
  __device__ __forceinline__ explicit ByWords(const Turn<T, Sum>& /*turn*/) {}
  __device__ __forceinline__ void begin() {}
  __device__ __forceinline__ void add(int, const RowVector<T>& row) {
#pragma unroll
    for (int w = 0; w < WORDS; ++w) {
      const uint32_t word = row.words.lane[w] ^ (BIAS * 0x01010101u);
      even_[w] += word & 0x00ff00ff;
      odd_[w] += word >> 8 & 0x00ff00ff;
    }
    ++rows_;
  }
  __device__ __forceinline__ void end(int) {}
  __device__ __forceinline__ int32_t node(int c) const {
    const uint32_t word = c % 2 == 0 ? even_[c / 4] : odd_[c / 4];
    return static_cast<int32_t>(word >> (c % 4 / 2 * 16) & 0xffff) - rows_ * BIAS;
  }

 private:
  static_assert(sizeof(T) == 1 && (CHAIN << NARROW_LEVELS) * 255 < 1 << 16, "sums fit 16 bits");
  static constexpr int WORDS = 4;
  static constexpr int BIAS = std::is_signed_v<T> ? 128 : 0;  ///< makes signed bytes unsigned

  uint32_t even_[WORDS] = {}, odd_[WORDS] = {};
  int rows_ = 0;
};

template <typename T, typename Op, int W = VECTOR_WIDTH<T>>
using ColumnSums = std::conditional_t<
    W == 16 && std::is_same_v<Op, Sum>, ByWords<T>,
    std::conditional_t<std::is_integral_v<T>, AnyOrder<T, Op, W>, InOrder<T, Op, W>>>;

}  // namespace SMEM_BUILD
}  // namespace smem::reduce
