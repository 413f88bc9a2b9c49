// Memory for the stacks of a block's fibers.
#pragma once

#include <cstddef>

namespace smem::cpu_emulator {

/// Memory that its destructor keeps for the next one: fresh memory would cost a page fault for
/// every thread of a launch, which is more than a small kernel does.
class StackMemory {
 public:
  explicit StackMemory(size_t bytes);
  ~StackMemory();
  StackMemory(const StackMemory&) = delete;
  StackMemory& operator=(const StackMemory&) = delete;

  unsigned char* get() const { return memory_; }
  bool holds(const void* address) const {
    return static_cast<size_t>(static_cast<const unsigned char*>(address) - memory_) < used_;
  }

 private:
  size_t used_, bytes_;  ///< what is asked for, and what is there
  unsigned char* memory_;
};

}  // namespace smem::cpu_emulator
