// Traces of the ops that this thread calls on CPU tensors (csrc/cpu_emulator/trace).
#pragma once

#include <string>

namespace smem::bindings {

/// Starts a trace, which replaces one in progress.
void begin_trace();

/// Ends the trace and returns its report in JSON: {"launches": [...], "tensors": {name: bytes}}
/// with the fields of cpu_emulator/trace/report.h. Throws if no trace is in progress.
std::string end_trace();

}  // namespace smem::bindings
