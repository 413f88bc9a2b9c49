// kernel_of_floats of instance_table.h.
#pragma once

#include "gemm/sm90/mainloop_tf32_rs.h"
#include "gemm/sm90/instance_table.h"

namespace smem::gemm::sm90 {

template <int INDEX, Exit EXIT>
const void* kernel_of_exit(Major a) {
  return a == Major::K
             ? reinterpret_cast<const void*>(gemm_kernel<float, Major::K, Major::K, INDEX, EXIT>)
             : reinterpret_cast<const void*>(gemm_kernel<float, Major::MN, Major::K, INDEX, EXIT>);
}

template <int INDEX>
const void* kernel_of_floats(Exit exit, Major a) {
  switch (exit) {
    case Exit::boxes:
      return kernel_of_exit<INDEX, Exit::boxes>(a);
    case Exit::rows:
      return kernel_of_exit<INDEX, Exit::rows>(a);
    case Exit::partials:
      return kernel_of_exit<INDEX, Exit::partials>(a);
    default:
      return kernel_of_exit<INDEX, Exit::any>(a);
  }
}

}  // namespace smem::gemm::sm90
