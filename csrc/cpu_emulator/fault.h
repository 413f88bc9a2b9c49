// Faults: what a kernel does that is undefined on a GPU.
#pragma once

#include <string>

#include "cpu_emulator/block.h"

namespace smem::cpu_emulator {

/// Tells the block's observer of a fault of the running thread, which may end then. Without an
/// observer the launch throws KernelFault.
void record_fault(Block& block, const char* kind, const std::string& detail, Site site);

/// Tells the block's observer, if it has one, and throws KernelFault, which ends the launch. `site`
/// is where in the kernel it happened.
[[noreturn]] void fail(Block& block, const char* kind, const std::string& detail, Site site);

/// " at <line>" for a message; nothing without a tracer, because nobody turns the site into a line.
std::string at_line(Block& block, Site site);

}  // namespace smem::cpu_emulator
