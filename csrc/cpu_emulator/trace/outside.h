// Says of an address outside of all memory what it is near to.
#pragma once

#include <cstdint>
#include <string>

#include "cpu_emulator/trace/session.h"

namespace smem::cpu_emulator::trace {

/// The name of the launch's dynamic shared memory.
inline const std::string DYNAMIC_SHARED = "dynamic_shared";

/// The text of an error: "4 bytes after the end of in (4096 bytes)". `shared_memory` is this
/// worker's, `dynamic_shared` the launch's own.
std::string describe_outside(uintptr_t address, const Recorder& recorder,
                             const unsigned char* shared_memory, SharedRun dynamic_shared);

}  // namespace smem::cpu_emulator::trace
