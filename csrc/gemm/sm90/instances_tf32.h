// Defines find_kernel_tf32 of instance_table.h.
#pragma once

#include "gemm/sm90/instances.h"
#include "gemm/sm90/mainloop_tf32_rs.h"

namespace smem::gemm::sm90::inline SMEM_BUILD {

template <int INDEX>
const void* find_kernel_tf32(EpilogueKind kind, DType /*dtype*/, Major a, Major /*b*/) {
  return with_epilogue_kind(kind, [&](auto constant) -> const void* {
    constexpr EpilogueKind KIND = decltype(constant)::value;
    if constexpr (is_built(INDEX, DType::f32, KIND)) {
      if (a == Major::K) return kernel_pointer<float, INDEX, KIND, Major::K, Major::K>();
      if constexpr (TILES[INDEX].config.takes_mn_major_tf32()) {
        return kernel_pointer<float, INDEX, KIND, Major::MN, Major::K>();
      }
    }
    return nullptr;
  });
}

}  // namespace smem::gemm::sm90::inline SMEM_BUILD
