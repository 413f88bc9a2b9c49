// Defines the kernels of a tile; each file of instances/ does so for one.
#pragma once

#include "gemm/sm90/kernel.h"
#include "gemm/sm90/instance_table.h"

namespace smem::gemm::sm90 {

template <typename T, int INDEX, Exit EXIT>
const void* kernel_of_type(Major a, Major b) {
  const void* const kernels[2][2] = {
      {reinterpret_cast<const void*>(gemm_kernel<T, Major::K, Major::K, INDEX, EXIT>),
       reinterpret_cast<const void*>(gemm_kernel<T, Major::K, Major::MN, INDEX, EXIT>)},
      {reinterpret_cast<const void*>(gemm_kernel<T, Major::MN, Major::K, INDEX, EXIT>),
       reinterpret_cast<const void*>(gemm_kernel<T, Major::MN, Major::MN, INDEX, EXIT>)}};
  return kernels[static_cast<int>(a)][static_cast<int>(b)];
}

template <int INDEX, Exit EXIT>
const void* kernel_of_exit(DType dtype, Major a, Major b) {
  return dtype == DType::f16 ? kernel_of_type<half, INDEX, EXIT>(a, b)
                             : kernel_of_type<bfloat16, INDEX, EXIT>(a, b);
}

template <int INDEX>
const void* kernel_of(Exit exit, DType dtype, Major a, Major b) {
  if (exit == Exit::boxes) return kernel_of_exit<INDEX, Exit::boxes>(dtype, a, b);
  if (exit == Exit::rows) return kernel_of_exit<INDEX, Exit::rows>(dtype, a, b);
  if constexpr (!TILES[INDEX].is_plain) {
    if (exit == Exit::partials) return kernel_of_exit<INDEX, Exit::partials>(dtype, a, b);
    if (exit == Exit::any) return kernel_of_exit<INDEX, Exit::any>(dtype, a, b);
  }
  return nullptr;
}

}  // namespace smem::gemm::sm90
