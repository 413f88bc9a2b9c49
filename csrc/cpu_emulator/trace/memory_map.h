// Which tensor, or which array in shared memory, an address belongs to.
#pragma once

#include <array>
#include <cstdint>

#include "cpu_emulator/trace/session.h"
#include "cpu_emulator/trace/shared_memory.h"

namespace smem::cpu_emulator::trace {

// The number of a memory: a tensor's in Recorder::buffers, SHARED and an array's, or NO_MEMORY.
constexpr uint16_t NO_MEMORY = 0x7fff, SHARED = 0x8000;
constexpr bool is_shared(uint16_t memory) { return memory >= SHARED; }

class MemoryMap {
 public:
  struct Range {
    uintptr_t begin = 0, end = 0;
    uint64_t offset = 0;  ///< of `begin` in the allocation, or in the array
    uint16_t memory = NO_MEMORY;
    /// The compiler's note of whether a shared object is constructed. On a GPU nothing is there.
    bool is_guard = false;

    bool holds(uintptr_t address, size_t bytes) const {
      return address >= begin && address + bytes <= end;
    }
    uint64_t place(uintptr_t address) const { return offset + (address - begin); }
  };

  MemoryMap(const Recorder& recorder, SharedMemory& shared);

  /// `run` is as the launch gives it; a user's kernel has it as an array.
  void set_dynamic_shared(SharedRun run) { dynamic_shared_ = run; }

  /// The range that the bytes are in, or one of NO_MEMORY. `key` is any number that accesses to the
  /// same memory have in common, such as the place in the code.
  const Range& find(uintptr_t address, size_t bytes, uintptr_t key) {
    Range& last = last_[key % last_.size()];
    if (!last.holds(address, bytes) || buffers_overlap_) last = look_up(address, bytes);
    return last;
  }

  /// Where bytes are in an array in shared memory; region -1 if they are in none. An array is noted
  /// when it is used first, since those of all kernels are in one block of memory.
  SharedMemory::Place find_shared(const void* address, size_t bytes);

  /// What an address outside of all is near to.
  std::string describe_outside(uintptr_t address) const;

 private:
  Range look_up(uintptr_t address, size_t bytes);

  const Recorder& recorder_;
  SharedMemory& shared_;
  unsigned char* shared_memory_;  ///< this worker's: see Module::shared_memory
  SharedRun dynamic_shared_{};
  bool buffers_overlap_ = false;  ///< then the last one added counts
  std::array<Range, 256> last_;   ///< found last, by key
};

}  // namespace smem::cpu_emulator::trace
