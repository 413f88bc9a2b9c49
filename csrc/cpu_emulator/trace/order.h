// Which events of a block's threads happened before which.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu_emulator/cpu_emulator.h"
#include "cpu_emulator/observer.h"

namespace smem::cpu_emulator::trace {

/// A thread's position in the order of events: the `barriers` that its block has passed, and the
/// number of the thread's interval between warp barriers and arrivals at asynchronous ones.
/// Packed, since four of them are kept for each element of shared memory.
struct [[gnu::packed, gnu::aligned(2)]] Moment {
  uint32_t barriers = 0, stretch = 0;
  uint16_t thread = NOBODY;

  static constexpr uint16_t NOBODY = 0xffff;  ///< a block has at most 1,024 threads
};

/// Which moments of the same block happened before which. Two threads are ordered by a block
/// barrier, two lanes of a warp also by a warp barrier that both pass, and an arrival at an
/// asynchronous barrier comes before the ends of the waits for it. (A shuffle orders registers, not
/// memory: CUDA C++ Programming Guide, "Warp Shuffle Functions".)
class Order {
 public:
  void begin_block(unsigned threads);
  void pass_barrier() { ++barriers_; }
  void pass_warp_barrier(unsigned warp, unsigned mask);
  /// What the thread has seen and done until now is added to `clock`.
  void release(unsigned thread, Clock& clock);
  /// The thread sees what was released into `clock`.
  void acquire(unsigned thread, const Clock& clock);

  uint32_t barriers() const { return barriers_; }
  Moment now(unsigned thread) const {
    return {barriers_, stretch_[thread], static_cast<uint16_t>(thread)};
  }
  bool happened_before(const Moment& moment, unsigned thread) const {
    return moment.barriers < barriers_ || moment.thread == thread ||
           moment.thread == Moment::NOBODY || has_seen(thread, moment);
  }

 private:
  /// Whether the thread has seen the moment by other than barriers of the block.
  bool has_seen(unsigned thread, const Moment& moment) const;
  /// Makes room for what each thread knows of `width` threads: of its warp, or of the block.
  void know_of(unsigned width);
  /// The latest stretches that a thread has seen: of its warp's lanes, or of all threads.
  uint32_t* seen_by(unsigned thread) { return &seen_[size_t{thread} * width_]; }

  uint32_t barriers_ = 0;
  std::vector<uint32_t> stretch_;  ///< by thread, of whole warps
  unsigned width_ = 0;             ///< of a row of `seen_`; 0 until there is a row
  std::vector<uint32_t> seen_;     ///< a row for each thread
};

}  // namespace smem::cpu_emulator::trace
