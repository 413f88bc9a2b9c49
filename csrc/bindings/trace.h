// Starts a trace of the ops that this thread calls on CPU tensors, and ends it with its report.
#pragma once

#include <string>

namespace smem::bindings {

void begin_trace();

/// JSON: {"launches": [...], "tensors": {name: bytes}}, as cpu_emulator/trace/report.h has them.
std::string end_trace();

}  // namespace smem::bindings
