// The asynchronous barriers of a block, which threads arrive at and wait for separately.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cpu_emulator/observer.h"

namespace smem::cpu_emulator {

class Block;

/// What cuda::barrier is made of (PTX mbarrier). A phase completes when the expected arrivals are
/// there; then the copies that were bound to it land, and the next phase begins. The kernel's bytes
/// only name the barrier.
class AsyncBarriers {
 public:
  explicit AsyncBarriers(Block& block) : block_(block) {}

  void clear() { barriers_.clear(); }
  // Each is called by the running thread.
  void init(const void* address, int64_t expected, Site site);
  /// Returns the parity of the phase. If `drops`, the phases after it expect one arrival less.
  bool arrive(const void* address, int64_t arrivals, bool drops, Site site);
  /// The thread's copies of the open group land when the phase completes.
  void bind_copies(const void* address, Site site);
  /// Waits for the end of the phase of this parity: the running one or the one before.
  void wait(const void* address, bool parity, Site site);

  /// The barriers that threads wait for: "; a cuda::barrier lacks 1 of 64 arrivals".
  std::string describe() const;

 private:
  struct Barrier {
    int64_t expected, missing;
    uint64_t phase = 0;
    unsigned waiting = 0;      ///< threads
    std::vector<Copy> copies;  ///< that land when the phase completes
    Clock released[2];         ///< into a phase of either parity

    bool parity() const { return phase % 2 != 0; }
  };

  Barrier& find(const void* barrier, Site site);
  void complete(Barrier& barrier);
  [[noreturn]] void fail(const std::string& detail, Site site);

  Block& block_;
  std::map<const void*, Barrier> barriers_;
};

}  // namespace smem::cpu_emulator
