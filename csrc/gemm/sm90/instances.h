// Defines find_kernel of instance_table.h; each file of instances/ instantiates it for one tile.
#pragma once

#include "gemm/sm90/instance_table.h"
#include "gemm/sm90/kernel.h"

namespace smem::gemm::sm90 {

template <typename T, int INDEX, EpilogueKind KIND>
const void* kernel_for_majors(Major a, Major b) {
  const void* const kernels[2][2] = {
      {reinterpret_cast<const void*>(gemm_kernel<T, Major::K, Major::K, INDEX, KIND>),
       reinterpret_cast<const void*>(gemm_kernel<T, Major::K, Major::MN, INDEX, KIND>)},
      {reinterpret_cast<const void*>(gemm_kernel<T, Major::MN, Major::K, INDEX, KIND>),
       reinterpret_cast<const void*>(gemm_kernel<T, Major::MN, Major::MN, INDEX, KIND>)}};
  return kernels[static_cast<int>(a)][static_cast<int>(b)];
}

template <int INDEX, EpilogueKind KIND>
const void* kernel_for_dtype(DType dtype, Major a, Major b) {
  return dtype == DType::f16 ? kernel_for_majors<half, INDEX, KIND>(a, b)
                             : kernel_for_majors<bfloat16, INDEX, KIND>(a, b);
}

template <int INDEX>
const void* find_kernel(EpilogueKind kind, DType dtype, Major a, Major b) {
  using enum EpilogueKind;
  if (kind == tma) return kernel_for_dtype<INDEX, tma>(dtype, a, b);
  if (kind == direct) return kernel_for_dtype<INDEX, direct>(dtype, a, b);
  if constexpr (!TILES[INDEX].fallback) {
    if (kind == splitk_partials) return kernel_for_dtype<INDEX, splitk_partials>(dtype, a, b);
    if (kind == any) return kernel_for_dtype<INDEX, any>(dtype, a, b);
  }
  return nullptr;
}

}  // namespace smem::gemm::sm90
