// The name of a kernel's function, as a debugger or the compiler's reports have it.
#pragma once

#include <string_view>

#include "device/platform.h"

namespace smem {
inline namespace SMEM_BUILD {

/// "smem::gemm::device_build::tiled_kernel<float, 32, 0>", say.
template <auto KERNEL>
constexpr std::string_view symbol_of() {
  const std::string_view text = __PRETTY_FUNCTION__;
  constexpr std::string_view BEFORE = "KERNEL = ";
  const size_t begin = text.find(BEFORE) + BEFORE.size();
  return text.substr(begin, text.find_first_of(";]", begin) - begin);
}

}  // namespace SMEM_BUILD
}  // namespace smem
