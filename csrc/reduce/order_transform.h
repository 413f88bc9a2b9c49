// Minima by the kernels of maxima. The least of some elements is the greatest of them in the order
// flipped around: floats with their signs changed, integers with all bits integer_mask. Turning
// takes an instruction an element at most, of a maximum's elements for nothing; kernels of their
// own would be a third of all that there is to compile.
#pragma once

#include <bit>

#include "device/vector.h"
#include "reduce/reduce.h"
#include "reduce/reduction_tree.h"

namespace smem::reduce {
inline namespace SMEM_BUILD {

template <size_t BYTES>
using Bits = std::conditional_t<
    BYTES == 1, uint8_t,
    std::conditional_t<BYTES == 2, uint16_t, std::conditional_t<BYTES == 4, uint32_t, uint64_t>>>;

/// From elements of x to thread_partials that Op combines, and from partials back to what they are
/// of x.
template <typename T, typename Op>
class OrderTransform {
 public:
  __device__ __forceinline__ explicit OrderTransform(const Problem& problem) {
    if constexpr (ENABLED) flip_mask_ = problem.op == Operator::min ? ~0u : 0;
  }

  /// Element v of a vector. A word's second bfloat16 is its upper half as it stands: of elements
  /// one by one, nvcc moves it down first and up again.
  template <int W>
  __device__ __forceinline__ ThreadPartial<T> apply(const Vector<T, W>& elements, int v) const {
    if constexpr (std::is_same_v<T, bfloat16> && W % 2 == 0) {
      const uint32_t word = std::bit_cast<Vector<uint32_t, W / 2>>(elements).lane[v / 2];
      const uint32_t sign = flip_mask_ & SIGN;  // added, a shift and it are one instruction
      return std::bit_cast<float>(v % 2 == 0 ? (word << 16) + sign : (word & 0xffff0000) ^ sign);
    } else if constexpr (ENABLED && std::is_integral_v<T> && sizeof(T) < 4 && W * sizeof(T) >= 4) {
      constexpr int PER_WORD = 4 / sizeof(T);  // a word at a time
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

  __device__ __forceinline__ Partial<Op, T> invert(Partial<Op, T> partial) const {
    return flipped(partial);
  }

  /// What comes to Op's identities, and stands for a vector that does not exist. Where some of the
  /// vectors that are under way are added on a condition, nvcc takes all of them apart as they
  /// come, and so waits for one after the other.
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

  /// The bits of an integer that are integer_mask.
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

  uint32_t flip_mask_ = 0;  ///< all bits or none
};

}  // namespace SMEM_BUILD
}  // namespace smem::reduce
