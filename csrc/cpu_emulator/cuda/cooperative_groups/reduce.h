// Stands for CUDA's header of that name: cg::reduce.
#pragma once

#include <type_traits>

#include "../cooperative_groups.h"

namespace cooperative_groups {

#define SMEM_OPERATION(name, result)                                        \
  template <typename T>                                                     \
  struct name {                                                             \
    SMEM_MATH T operator()(const T& a, const T& b) const { return result; } \
  };
SMEM_OPERATION(plus, a + b)
SMEM_OPERATION(less, b < a ? b : a)
SMEM_OPERATION(greater, a < b ? b : a)
SMEM_OPERATION(bit_and, a& b)
SMEM_OPERATION(bit_or, a | b)
SMEM_OPERATION(bit_xor, a ^ b)
#undef SMEM_OPERATION

/// Whether the GPU has one instruction for it.
template <typename T, typename Operation>
constexpr bool smem_is_one_instruction = false;
template <typename T, template <typename> typename Operation>
constexpr bool smem_is_one_instruction<T, Operation<T>> =
    std::is_integral_v<T> && sizeof(T) == 4 &&
    (std::is_same_v<Operation<T>, plus<T>> || std::is_same_v<Operation<T>, less<T>> ||
     std::is_same_v<Operation<T>, greater<T>> || std::is_same_v<Operation<T>, bit_and<T>> ||
     std::is_same_v<Operation<T>, bit_or<T>> || std::is_same_v<Operation<T>, bit_xor<T>>);

/// Every thread receives the result.
template <typename Group, typename T, typename Operation>
SMEM_MATH T reduce(const Group& group, T value, Operation operation) {
  if constexpr (smem_is_one_instruction<T, Operation>) {
    return smem_reduce_lanes(group.smem_mask(), value, operation);
  } else {
    const unsigned count = group.num_threads(), rank = group.thread_rank();
    if ((count & (count - 1)) == 0) {
      for (unsigned offset = count / 2; offset > 0; offset /= 2) {
        value = operation(value, group.shfl_xor(value, offset));
      }
      return value;
    }
    for (unsigned offset = 16; offset > 0; offset /= 2) {
      const T other = group.shfl_down(value, offset);
      if (rank + offset < count) value = operation(value, other);
    }
    return group.shfl(value, 0);
  }
}

}  // namespace cooperative_groups
