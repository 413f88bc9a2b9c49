// Stands for CUDA's header of that name: copies to shared memory by the threads of a group.
#pragma once

#include "../async_copy.h"
#include "../cooperative_groups.h"

namespace cooperative_groups {

/// Starts to copy `bytes`; each call is a group of copies that wait_prior counts.
template <typename Group, typename T, typename Size>
SMEM_MATH void memcpy_async(const Group& group, T* to, const T* from, Size bytes) {
  smem_copy_async(group.thread_rank(), group.num_threads(), to, from, bytes, 16);
  smem_cp_async_commit();
}

/// Waits until all but the last N copies have arrived, for every thread of the group.
template <unsigned N, typename Group>
SMEM_MATH void wait_prior(const Group& group) {
  smem_cp_async_wait(N);
  group.sync();
}
template <typename Group>
SMEM_MATH void wait(const Group& group) {
  wait_prior<0>(group);
}

}  // namespace cooperative_groups
