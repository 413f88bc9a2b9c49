// The name of a kernel's function, as debuggers and compiler reports show it.
#pragma once

#include "device/platform.h"

namespace smem::inline SMEM_BUILD {

/// A text in which the name follows "KERNEL = ", such as
/// "smem::gemm::device_build::tiled_kernel<float, 32, 0>". The reader extracts the name
/// (bindings/kernel_info.cpp): including <string_view> here would take a quarter of the compiler's
/// front-end time for a kernel.
template <auto KERNEL>
constexpr const char* symbol_of() {
  return __PRETTY_FUNCTION__;
}

}  // namespace smem::inline SMEM_BUILD
