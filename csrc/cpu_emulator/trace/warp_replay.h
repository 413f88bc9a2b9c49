// Finds out which lanes of a warp execute an access together.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cpu_emulator/trace/cost.h"
#include "cpu_emulator/trace/report.h"

namespace smem::cpu_emulator::trace {

// Which memory an event concerns: a buffer's number, NO_MEMORY, or SHARED and an array's number.
constexpr uint16_t NO_MEMORY = 0x7fff, SHARED = 0x8000;
constexpr bool is_shared(uint16_t memory) { return memory >= SHARED; }

/// What one lane does at one instruction. 24 bytes, because there is one for every access and every
/// basic block of every thread.
struct LaneEvent {
  /// Of an access: where. Of a barrier or shuffle: the meeting's number and the lanes that met, 0
  /// until it opens.
  uint64_t address;
  uint32_t pc;     ///< from the begin of the kernel's code
  uint16_t depth;  ///< of calls
  uint16_t memory;
  Action action;
  uint8_t bytes;

  /// Whether another lane is at the same instruction and does the same to the same memory. All
  /// fields but the address in two comparisons: this is asked of every event of every lane.
  bool is_like(const LaneEvent& other) const {
    return place() == other.place() && kind() == other.kind();
  }

 private:
  uint64_t place() const { return pc | uint64_t{depth} << 32 | uint64_t{memory} << 48; }
  unsigned kind() const { return static_cast<unsigned>(action) | unsigned{bytes} << 8; }
};

/// The events of a warp's lanes, which run one after the other here, together on the GPU.
///
/// As a GPU without independent thread scheduling would, the replay executes the lanes at the
/// deepest call, and of these the ones at the lowest address, until all are at a meeting: S.
/// Collange, "Stack-less SIMT reconvergence at low cost" (2011). The begins of basic blocks are
/// events, too, so that lanes wait for each other where the ways of an `if` meet again.
class WarpReplay {
 public:
  using Account = std::function<void(const LaneEvent& event, const Request& request)>;

  void add(unsigned lane, const LaneEvent& event) { lanes_[lane].events.push_back(event); }
  /// A copy, which has two addresses.
  void add_copy(unsigned lane, const LaneEvent& event, uint64_t partner) {
    lanes_[lane].partners.push_back(partner);
    add(lane, event);
  }
  size_t size(unsigned lane) const { return lanes_[lane].events.size(); }

  /// The lanes whose newest event is a barrier or shuffle that has not opened.
  uint32_t lanes_that_wait() const;
  /// The newest event of each of these lanes is a meeting that opens.
  void open_meeting(uint32_t lanes);

  /// Hands requests to `account` as far as the events tell which lanes execute them together, and
  /// forgets those events. `running` are the lanes that may add events.
  void drain(uint32_t running, const Account& account);

 private:
  struct Lane {
    std::vector<LaneEvent> events;
    std::vector<uint64_t> partners;  ///< of the copies among them
    size_t next = 0;                 ///< the first event that has not been served
    size_t next_partner = 0;

    bool is_served() const { return next == events.size(); }
    const LaneEvent& head() const { return events[next]; }
  };

  /// Of the lanes that stand at an event, those to be executed next; 0 if there are none.
  uint32_t lanes_to_execute(uint32_t pending) const;
  /// Whether all of them are at one access or basic block, as they are nearly always.
  bool are_converged(uint32_t pending) const;
  uint32_t lanes_with_head(const LaneEvent& event, uint32_t pending) const;
  void serve(uint32_t lanes, const Account& account);
  void forget_served();

  Lane lanes_[WARP_SIZE];
  uint32_t meetings_ = 0;
};

}  // namespace smem::cpu_emulator::trace
