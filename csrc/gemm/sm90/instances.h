// Defines find_kernel of instance_table.h; each file of instances/ instantiates it for one tile.
#pragma once

#include "gemm/sm90/instance_table.h"
#include "gemm/sm90/kernel.h"

namespace smem::gemm::sm90::inline SMEM_BUILD {

template <typename T, int INDEX, EpilogueKind KIND, Major A_MAJOR, Major B_MAJOR>
const void* kernel_pointer() {
  return reinterpret_cast<const void*>(gemm_kernel<T, A_MAJOR, B_MAJOR, INDEX, KIND>);
}

template <typename T, int INDEX, EpilogueKind KIND>
const void* kernel_for_majors(Major a, Major b) {
  const void* const kernels[2][2] = {{kernel_pointer<T, INDEX, KIND, Major::K, Major::K>(),
                                      kernel_pointer<T, INDEX, KIND, Major::K, Major::MN>()},
                                     {kernel_pointer<T, INDEX, KIND, Major::MN, Major::K>(),
                                      kernel_pointer<T, INDEX, KIND, Major::MN, Major::MN>()}};
  return kernels[static_cast<int>(a)][static_cast<int>(b)];
}

template <int INDEX, EpilogueKind KIND>
const void* kernel_for_dtype(DType dtype, Major a, Major b) {
  if constexpr (is_built(INDEX, DType::f16, KIND)) {
    if (dtype == DType::f16) return kernel_for_majors<half, INDEX, KIND>(a, b);
  }
  if constexpr (is_built(INDEX, DType::bf16, KIND)) {
    if (dtype == DType::bf16) return kernel_for_majors<bfloat16, INDEX, KIND>(a, b);
  }
  return nullptr;
}

template <int INDEX>
const void* find_kernel(EpilogueKind kind, DType dtype, Major a, Major b) {
  return with_epilogue_kind(kind, [&](auto constant) {
    return kernel_for_dtype<INDEX, decltype(constant)::value>(dtype, a, b);
  });
}

}  // namespace smem::gemm::sm90::inline SMEM_BUILD
