// How the emulator ends a launch that would be undefined on a GPU.
#pragma once

#include <string>

#include "cpu_emulator/block.h"

namespace smem::cpu_emulator::sm90 {

/// Reports the fault to the block's observer, if it has one, and throws AsyncFault. `site` is where
/// in the kernel it happened.
[[noreturn]] void fail(Block& block, const char* kind, const std::string& detail, Site site);

/// " at <line>" for a message; nothing without a tracer, because nobody turns the site into a line.
std::string at_line(Block& block, Site site);

}  // namespace smem::cpu_emulator::sm90
