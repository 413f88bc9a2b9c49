// The name of a kernel's function, as a debugger or the compiler's reports have it.
#pragma once

#include "device/platform.h"

namespace smem {
inline namespace SMEM_BUILD {

/// A text in which the name follows "KERNEL = ": "smem::gemm::device_build::tiled_kernel<float, 32,
/// 0>", say. Who reads it cuts it out (bindings/module.cpp): <string_view> would be a quarter of a
/// kernel's front end.
template <auto KERNEL>
constexpr const char* symbol_of() {
  return __PRETTY_FUNCTION__;
}

}  // namespace SMEM_BUILD
}  // namespace smem
