#include "cpu_emulator/sm90/fault.h"

namespace smem::cpu_emulator::sm90 {

void fail(Block& block, const char* kind, const std::string& detail, Site site) {
  if (Observer* const observer = block.observer()) observer->error(kind, detail, site);
  std::string text = "cpu_emulator: " + std::string(kind) + ": " + detail;
  if (current_thread) {
    text += "; found in thread " + std::to_string(current_thread->linear) + " of block " +
            std::to_string(current_thread->block_index.x);
  }
  throw AsyncFault(text);
}

std::string at_line(Block& block, Site site) {
  return block.observer() ? " at " + site.text() : "";
}

}  // namespace smem::cpu_emulator::sm90
