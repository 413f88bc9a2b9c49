// A place in a kernel's code, which identifies errors and counts.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace smem::cpu_emulator {

struct Site {
  uintptr_t pc = 0;  ///< the address after the instruction that accesses memory or calls

  static Site of(const void* return_address) {
    return {reinterpret_cast<uintptr_t>(return_address)};
  }

  bool operator==(const Site&) const = default;

  /// "@7f...@", which whoever knows the code's debug information replaces by "tiled.cu:44".
  std::string text() const {
    char text[24];
    std::snprintf(text, sizeof(text), "@%zx@", static_cast<size_t>(pc));
    return text;
  }
};

}  // namespace smem::cpu_emulator
