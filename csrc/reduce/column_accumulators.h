// The accumulators of one thread for W neighbouring columns. They are handed rows, each a vector of
// 16 bytes, and return the partial above the thread's thread partials for every column.
//
// OrderedAccumulators follow the order of reduce/reduction_tree.h. The other two are for integers,
// for which every order gives the same bits.
#pragma once

#include "device/vector.h"
#include "reduce/reduction_tree.h"
#include "reduce/thread_reduce.h"

namespace smem::reduce::inline SMEM_BUILD {

/// Rows per stage of the pipeline; they belong to neighbouring thread partials. 4 rows of 8 columns
/// are 32 accumulators per thread.
constexpr int ROWS_PER_STAGE = 4, ROWS_PER_STAGE_LOG2 = 2;

template <typename T, int W = VECTOR_WIDTH<T>>
using RowVector = Loaded<T, W>;

/// Accumulates in the order of reduce/reduction_tree.h.
template <typename T, typename Op, int W>
class OrderedAccumulators {
 public:
  __device__ __forceinline__ explicit OrderedAccumulators(const OrderTransform<T, Op>& transform)
      : transform_(transform) {}
  __device__ __forceinline__ void begin_group() {
#pragma unroll
    for (int c = 0; c < W; ++c) set_to_identity<Op>(thread_partials_[c]);
  }
  /// Adds a row to thread partial r of the current group.
  __device__ __forceinline__ void add(int r, const RowVector<T, W>& row) {
    const Vector<T, W> elements = row.elements();
#pragma unroll
    for (int c = 0; c < W; ++c) {
      thread_partials_[c][r] = Op::combine(thread_partials_[c][r], transform_.apply(elements, c));
    }
  }
  /// Ends group `g`. The number of groups is a power of two.
  __device__ __forceinline__ void end_group(int g) {
#pragma unroll
    for (int c = 0; c < W; ++c)
      partial_[c] = counters_[c].push(g, tree_reduce<Op>(thread_partials_[c]));
  }
  __device__ __forceinline__ ThreadPartial<T> partial(int c) const { return partial_[c]; }

 private:
  OrderTransform<T, Op> transform_;
  ThreadPartial<T> thread_partials_[W][ROWS_PER_STAGE], partial_[W] = {};
  BinaryCounter<Op, ThreadPartial<T>, FP32_LEVELS - ROWS_PER_STAGE_LOG2> counters_[W];
};

/// Accumulates integers in the order in which rows arrive.
template <typename T, typename Op, int W>
class UnorderedAccumulators {
 public:
  __device__ __forceinline__ explicit UnorderedAccumulators(const OrderTransform<T, Op>& transform)
      : transform_(transform) {
    set_to_identity<Op>(partial_);
  }
  __device__ __forceinline__ void begin_group() {}
  __device__ __forceinline__ void add(int, const RowVector<T, W>& row) {
    const Vector<T, W> elements = row.elements();
#pragma unroll
    for (int c = 0; c < W; ++c)
      partial_[c] = Op::combine(partial_[c], transform_.apply(elements, c));
  }
  __device__ __forceinline__ void end_group(int) {}
  __device__ __forceinline__ ThreadPartial<T> partial(int c) const { return partial_[c]; }

 private:
  OrderTransform<T, Op> transform_;
  ThreadPartial<T> partial_[W];
};

/// Sums of bytes, with two 16-bit sums per register: 5 instructions for 4 elements, where one
/// accumulator per element takes 10. A 16-bit sum can hold the elements of the 2^5 thread partials
/// that a thread has.
template <typename T>
class PackedByteAccumulators {
 public:
  __device__ __forceinline__ explicit PackedByteAccumulators(
      const OrderTransform<T, Sum>& /*transform*/) {}
  __device__ __forceinline__ void begin_group() {}
  __device__ __forceinline__ void add(int, const RowVector<T>& row) {
#pragma unroll
    for (int w = 0; w < WORDS; ++w) {
      const uint32_t word = row.words.lane[w] ^ (BIAS * 0x01010101u);
      even_[w] += word & 0x00ff00ff;
      odd_[w] += word >> 8 & 0x00ff00ff;
    }
    ++rows_;
  }
  __device__ __forceinline__ void end_group(int) {}
  __device__ __forceinline__ int32_t partial(int c) const {
    const uint32_t word = c % 2 == 0 ? even_[c / 4] : odd_[c / 4];
    return static_cast<int32_t>(word >> (c % 4 / 2 * 16) & 0xffff) - rows_ * BIAS;
  }

 private:
  static_assert(sizeof(T) == 1 && (ELEMENTS_PER_PARTIAL << FP32_LEVELS) * 255 < 1 << 16,
                "sums fit 16 bits");
  static constexpr int WORDS = 4;
  /// maps signed bytes to unsigned ones
  static constexpr int BIAS = std::is_signed_v<T> ? 128 : 0;

  uint32_t even_[WORDS] = {}, odd_[WORDS] = {};
  int rows_ = 0;
};

template <typename T, typename Op, int W = VECTOR_WIDTH<T>>
using ColumnAccumulators =
    std::conditional_t<W == 16 && std::is_same_v<Op, Sum>, PackedByteAccumulators<T>,
                       std::conditional_t<std::is_integral_v<T>, UnorderedAccumulators<T, Op, W>,
                                          OrderedAccumulators<T, Op, W>>>;

}  // namespace smem::reduce::inline SMEM_BUILD
