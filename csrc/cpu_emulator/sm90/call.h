// A kernel's call of the emulator.
#pragma once

#include "cpu_emulator/cluster.h"
#include "cpu_emulator/sm90/block_state.h"

namespace smem::cpu_emulator::sm90 {

/// A call of the running thread. Asynchronous operations that are due happen first, and perhaps
/// other threads run.
struct Call {
  explicit Call(const void* return_address) : site(Site::of(return_address)) {
    if (async.tick()) block.yield();
  }

  void let_others_run(int turns) const {
    for (int i = 0; i < turns; ++i) block.yield();
  }

  uint32_t offset(const void* shared) const { return state.window.offset_of(shared, site); }

  // The callbacks of accesses to shared memory that the emulator makes for the kernel.

  void store(const void* shared, uint32_t bytes) const {
    Observer* const observer = block.observer();
    if (observer && !observer->access(Action::store, shared, bytes, site)) block.abandon();
    state.window.access(Action::store, shared, bytes, current_thread->linear, site);
  }
  void load(const void* address, uint32_t bytes) const {
    Observer* const observer = block.observer();
    if (observer && !observer->access(Action::load, address, bytes, site)) block.abandon();
    state.window.access(Action::load, address, bytes, current_thread->linear, site);
  }
  void speculative_load(const void* shared, uint32_t bytes) const {
    Observer* const observer = block.observer();
    if (observer && !observer->speculative_load(shared, bytes, site)) block.abandon();
    state.window.access(Action::load, shared, bytes, current_thread->linear, site);
  }

  InEmulator guard;
  Block& block = *current_thread->block;
  BlockState& state = block.sm90();
  AsyncQueue& async = block.cluster().async();
  Site site;
};

}  // namespace smem::cpu_emulator::sm90

#define CALL const smem::cpu_emulator::sm90::Call call(__builtin_return_address(0))
