// Minima by the kernels of maxima. A map that reverses the order turns the minimum into the
// maximum: it flips the sign of floats and inverts all bits of integers. It takes at most one
// instruction per element for a minimum and none for a maximum. Separate kernels for minima would
// be a third of all code to compile.
#pragma once

#include <bit>

#include "device/vector.h"
#include "reduce/reduce.h"
#include "reduce/reduction_tree.h"

namespace smem::reduce::inline SMEM_BUILD {

template <size_t BYTES>
using Bits = std::conditional_t<
    BYTES == 1, uint8_t,
    std::conditional_t<BYTES == 2, uint16_t, std::conditional_t<BYTES == 4, uint32_t, uint64_t>>>;

/// Maps elements of x to the thread partials that Op combines, and final partials back to elements.
template <typename T, typename Op>
class OrderTransform {
 public:
  __device__ __forceinline__ explicit OrderTransform(const Problem& problem) {
    if constexpr (ENABLED) flip_mask_ = problem.op == Operator::min ? ~0u : 0;
  }

  /// Element v of a vector. A word's second bfloat16 is its upper half in place; if the elements
  /// were taken one by one, nvcc would shift it down first and up again.
  template <int W>
  __device__ __forceinline__ ThreadPartial<T> apply(const Vector<T, W>& elements, int v) const {
    if constexpr (std::is_same_v<T, bfloat16> && W % 2 == 0) {
      const uint32_t word = std::bit_cast<Vector<uint32_t, W / 2>>(elements).lane[v / 2];
      // `+` and not `^`: the shift and the addition are one instruction
      const uint32_t sign = flip_mask_ & SIGN;
      return std::bit_cast<float>(v % 2 == 0 ? (word << 16) + sign : (word & 0xffff0000) ^ sign);
    } else if constexpr (ENABLED && std::is_integral_v<T> && sizeof(T) < 4 && W * sizeof(T) >= 4) {
      constexpr int PER_WORD = 4 / sizeof(T);  // all elements of a word at a time
      const auto words = std::bit_cast<Vector<uint32_t, W / PER_WORD>>(elements);
      return static_cast<T>((words.lane[v / PER_WORD] ^ flip_mask_) >>
                            v % PER_WORD * (32 / PER_WORD));
    } else {
      return apply(elements.lane[v]);
    }
  }
  __device__ __forceinline__ ThreadPartial<T> apply(T element) const {
    return flipped(to_thread_partial(element));
  }

  /// The identity, which the blocks without elements store, becomes that of T first: with the low
  /// bits flipped alone, the lowest integer would be the smallest of unsigned partials, not the
  /// largest.
  __device__ __forceinline__ Partial<Op, T> invert(Partial<Op, T> partial) const {
    if constexpr (ENABLED && std::is_unsigned_v<T>) partial = partial < 0 ? 0 : partial;
    return flipped(partial);
  }

  /// The vector that is mapped to Op's identities. It replaces a vector that does not exist, so
  /// that all vectors are added unconditionally: when some additions are conditional, nvcc unpacks
  /// every vector as it arrives and so waits for one load after the other.
  template <int W>
  __device__ __forceinline__ Loaded<T, W> identity() const {
    Vector<T, W> vector{};
#pragma unroll
    for (int c = 0; c < W; ++c) {
      if constexpr (std::is_integral_v<T>) {
        vector.lane[c] = static_cast<T>(Op::template identity<T>() ^ integer_mask());
      } else {
        const auto identity = Op::template identity<Accumulator<T>>();
        vector.lane[c] = from_accumulator<T>(flipped(identity));
      }
    }
    return std::bit_cast<Loaded<T, W>>(vector);
  }

 private:
  static constexpr bool ENABLED = !std::is_same_v<Op, Sum>;
  static constexpr uint32_t SIGN = uint32_t{1} << 31;

  /// The bits of an integer that are flipped.
  __device__ __forceinline__ T integer_mask() const {
    return static_cast<T>(static_cast<int32_t>(flip_mask_));
  }

  template <typename Acc>
  __device__ __forceinline__ Acc flipped(Acc value) const {
    if constexpr (!ENABLED) {
      return value;
    } else if constexpr (std::is_integral_v<Acc>) {
      return value ^ integer_mask();
    } else {
      const auto number = number_of(value);
      if constexpr (sizeof(number) == 8) {
        return std::bit_cast<double>(std::bit_cast<uint64_t>(number) ^ uint64_t{flip_mask_ & SIGN}
                                                                           << 32);
      } else {
        return std::bit_cast<float>(std::bit_cast<uint32_t>(number) + (flip_mask_ & SIGN));
      }
    }
  }

  uint32_t flip_mask_ = 0;  ///< all bits are set for a minimum, none otherwise
};

}  // namespace smem::reduce::inline SMEM_BUILD
