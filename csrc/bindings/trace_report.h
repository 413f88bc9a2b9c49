// The report of a trace as JSON.
#pragma once

#include <string>

#include "cpu_emulator/trace/session.h"

namespace smem::bindings {

/// {"begin": address of the code, "launches": [...], "tensors": {name: bytes}} with the fields of
/// cpu_emulator/trace/report.h.
std::string report_json(const cpu_emulator::trace::Session& reported);

}  // namespace smem::bindings
