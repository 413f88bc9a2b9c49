// The mbarriers of a block, and the other barriers of sm_90: named ones.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "cpu_emulator/block.h"
#include "cpu_emulator/observer.h"
#include "cpu_emulator/sm90/async_queue.h"

namespace smem::cpu_emulator::sm90 {

/// A phase completes when the expected arrivals and bytes are there; then the next phase begins.
/// The kernel's 8 bytes in shared memory only name the barrier.
struct Mbarrier {
  uint32_t count, arrivals_left;
  int64_t bytes_left = 0;  ///< below zero if bytes arrive before they are expected
  uint64_t phase = 0;
  bool published = false;                 ///< fence.mbarrier_init after `init`
  std::map<unsigned, uint64_t> waited{};  ///< the last phase that a warp waited for, plus one
  Clock released[2] = {};  ///< by the parity of the phase: what threads did before they arrived

  bool has_completed(uint32_t parity) const { return phase % 2 != parity; }
  /// Whether a warp waits for this phase for the first time.
  bool is_first_wait(unsigned warp, uint32_t parity);
  bool complete_if_due();
};

class Mbarriers {
 public:
  explicit Mbarriers(Block& block) : block_(block) {}

  bool empty() const { return barriers_.empty(); }
  // `offset` is the barrier's in the block's shared window.
  void init(uint32_t offset, uint32_t count, Site site);
  /// PTX fence.mbarrier_init: other blocks and TMA may use the barriers.
  void publish();
  void arrive(uint32_t offset, uint32_t expected_bytes, bool from_other_block, Site site);
  /// The running thread arrives when its open group of cp.async has landed.
  void arrive_after_copies(uint32_t offset, AsyncQueue& async, Site site);
  void complete_bytes(uint32_t offset, uint32_t bytes, Site site);
  /// Returns when the phase of this parity has completed.
  void wait(uint32_t offset, uint32_t parity, Site site);
  /// The state of each barrier: "; mbarrier 0: phase 3, 1 of 1 arrivals and 512 bytes missing".
  std::string describe() const;

 private:
  /// The barrier for a use by threads of the block, or by others, which must be published.
  Mbarrier& find(uint32_t offset, bool is_own_thread, Site site);
  void count_arrival(uint32_t offset, Mbarrier& barrier, Site site);
  void complete_if_due(uint32_t offset, Mbarrier& barrier);

  Block& block_;
  std::map<uint32_t, Mbarrier> barriers_;
};

/// PTX barrier.cta with a number of threads.
struct NamedBarrier {
  unsigned arrived = 0;
  uint64_t opened = 0;     ///< how often all threads have arrived
  Clock released[2] = {};  ///< by the parity of `opened`: what threads did before they arrived
};

}  // namespace smem::cpu_emulator::sm90
