// Defines find_kernel_tf32 of instance_table.h.
#pragma once

#include "gemm/sm90/instance_table.h"
#include "gemm/sm90/mainloop_tf32_rs.h"

namespace smem::gemm::sm90::inline SMEM_BUILD {

template <int INDEX, EpilogueKind KIND>
const void* kernel_for_major(Major a) {
  if constexpr (is_built(INDEX, DType::f32, KIND)) {
    return a == Major::K
               ? reinterpret_cast<const void*>(gemm_kernel<float, Major::K, Major::K, INDEX, KIND>)
               : reinterpret_cast<const void*>(
                     gemm_kernel<float, Major::MN, Major::K, INDEX, KIND>);
  } else {
    return nullptr;
  }
}

template <int INDEX>
const void* find_kernel_tf32(EpilogueKind kind, Major a) {
  switch (kind) {
    case EpilogueKind::tma:
      return kernel_for_major<INDEX, EpilogueKind::tma>(a);
    case EpilogueKind::direct:
      return kernel_for_major<INDEX, EpilogueKind::direct>(a);
    case EpilogueKind::splitk_partials:
      return kernel_for_major<INDEX, EpilogueKind::splitk_partials>(a);
    default:
      return kernel_for_major<INDEX, EpilogueKind::any>(a);
  }
}

}  // namespace smem::gemm::sm90::inline SMEM_BUILD
