// A source location in a kernel, which identifies errors and counts.
#pragma once

#include <source_location>
#include <string>

namespace smem::cpu_emulator {

/// As the default value of a function's last argument, `Site::here()` is the line that calls it.
struct Site {
  std::source_location at;

  static Site here(std::source_location at = std::source_location::current()) { return {at}; }

  /// "tiled.cu:44"
  std::string text() const {
    const std::string file = at.file_name();
    return file.substr(file.rfind('/') + 1) + ":" + std::to_string(at.line());
  }
};

}  // namespace smem::cpu_emulator
