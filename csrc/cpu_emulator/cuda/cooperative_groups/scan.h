// Stands for CUDA's header of that name: cg::inclusive_scan and cg::exclusive_scan.
#pragma once

#include "reduce.h"

namespace cooperative_groups {

template <typename Group, typename T, typename Operation>
SMEM_MATH T inclusive_scan(const Group& group, T value, Operation operation) {
  const unsigned count = group.num_threads(), rank = group.thread_rank();
  for (unsigned offset = 1; offset < count; offset *= 2) {
    const T other = group.shfl_up(value, offset);
    if (rank >= offset) value = operation(other, value);
  }
  return value;
}
template <typename Group, typename T>
SMEM_MATH T inclusive_scan(const Group& group, T value) {
  return inclusive_scan(group, value, plus<T>());
}

/// The first thread receives T(), the identity of plus.
template <typename Group, typename T, typename Operation>
SMEM_MATH T exclusive_scan(const Group& group, T value, Operation operation) {
  const T before = group.shfl_up(inclusive_scan(group, value, operation), 1);
  return group.thread_rank() == 0 ? T() : before;
}
template <typename Group, typename T>
SMEM_MATH T exclusive_scan(const Group& group, T value) {
  return exclusive_scan(group, value, plus<T>());
}

}  // namespace cooperative_groups
