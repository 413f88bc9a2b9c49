#include "cpu_emulator/fault.h"

namespace smem::cpu_emulator {

namespace {

KernelFault fault_of(const char* kind, const std::string& detail) {
  std::string text = "cpu_emulator: " + std::string(kind) + ": " + detail;
  if (current_thread) {
    text += "; found in thread " + std::to_string(current_thread->linear) + " of block " +
            std::to_string(current_thread->block_index.x);
  }
  return KernelFault(text);
}

}  // namespace

void record_fault(Block& block, const char* kind, const std::string& detail, Site site) {
  if (Observer* const observer = block.observer()) {
    observer->error(kind, detail, site);
  } else if (!block.ring().error) {
    block.ring().error = std::make_exception_ptr(fault_of(kind, detail));
  }
}

void fail(Block& block, const char* kind, const std::string& detail, Site site) {
  if (Observer* const observer = block.observer()) observer->error(kind, detail, site);
  throw fault_of(kind, detail);
}

std::string at_line(Block& block, Site site) {
  return block.observer() ? " at " + site.text() : "";
}

}  // namespace smem::cpu_emulator
