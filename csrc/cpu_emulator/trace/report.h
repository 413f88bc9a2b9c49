// The trace of one launch.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "cpu_emulator/observer.h"
#include "cpu_emulator/trace/pipeline.h"

namespace smem::cpu_emulator::trace {

constexpr const char* name_of(Action action) {
  constexpr const char* NAMES[] = {
      "load", "store",  "copy_from", "copy_to",       "box_from",     "box_to",  "wgmma",
      "mma",  "atomic", "barrier",   "mbarrier_wait", "warp_barrier", "shuffle", "pass"};
  return NAMES[static_cast<int>(action)];
}

constexpr int64_t INACTIVE = -1;

/// One thing that the kernel does at one place: to one tensor or to one array in shared memory.
struct Row {
  uintptr_t pc;  ///< see Site
  Action action;
  std::string memory;           ///< the tensor's name, "shared", or empty for barriers and shuffles
  std::string array;            ///< the name of the array in shared memory, where it is known
  int bytes_a_lane;             ///< 0 for barriers and shuffles
  uint64_t requests = 0;        ///< one for each warp and execution
  uint64_t lanes = 0;           ///< threads over all requests
  uint64_t distinct_bytes = 0;  ///< over requests; what lanes share is counted once
  uint64_t sectors = 0;         ///< of 32 bytes, global memory
  uint64_t wavefronts = 0;      ///< passes through the banks, shared memory
  uint64_t conflicts = 0;       ///< passes beyond those that the width asks for
  uint64_t ready = 0;           ///< of waits at mbarriers: the phase had completed already
  uint64_t tensor_flop = 0;     ///< of tensor cores; a multiply-add is two
  uint64_t tensor_cycles = 0;   ///< of one tensor core at full rate: sm90::full_rate_cycles
  uint64_t worst = 0;           ///< most sectors, or wavefronts, of one request
  /// The same if the compiler merges this line's loads: see MergedLoads. Equal to the above if it
  /// cannot.
  uint64_t merged_requests = 0, merged_wavefronts = 0, merged_conflicts = 0;
  uint64_t example_block = 0;
  std::array<int64_t, 32> example;  ///< byte offsets of the worst request's lanes, or INACTIVE
};

/// An error that would occur on the GPU.
struct Fault {
  std::string kind;  ///< "race", "out of bounds", ...
  uintptr_t pc;
  unsigned block[3];
  std::string threads;  ///< "17", "3 and 35"
  std::string detail;
  uint64_t count = 1;  ///< how often, the first time being described
};

struct Launch {
  std::string kernel;
  unsigned grid[3], block[3];
  uint64_t dynamic_shared_bytes;
  uint64_t static_shared_bytes = 0;  ///< of the arrays that were used
  std::vector<Row> rows;             ///< by place
  Operations operations{};
  std::vector<Fault> faults;
  std::vector<StageChange> pipeline{};  ///< of block 0
};

}  // namespace smem::cpu_emulator::trace
