// Defines the kernels of a tile; each file of instances/ does so for one.
#pragma once

#include "gemm/hopper/kernel.h"
#include "gemm/hopper/kernels.h"

namespace smem::gemm::hopper {

template <typename T, int INDEX>
const void* kernel_of_type(Major a, Major b) {
  const void* const kernels[2][2] = {
      {reinterpret_cast<const void*>(gemm_kernel<T, Major::K, Major::K, INDEX>),
       reinterpret_cast<const void*>(gemm_kernel<T, Major::K, Major::MN, INDEX>)},
      {reinterpret_cast<const void*>(gemm_kernel<T, Major::MN, Major::K, INDEX>),
       reinterpret_cast<const void*>(gemm_kernel<T, Major::MN, Major::MN, INDEX>)}};
  return kernels[static_cast<int>(a)][static_cast<int>(b)];
}

template <int INDEX>
const void* kernel_of(DType dtype, Major a, Major b) {
  return dtype == DType::f16 ? kernel_of_type<half, INDEX>(a, b)
                             : kernel_of_type<bfloat16, INDEX>(a, b);
}

}  // namespace smem::gemm::hopper
