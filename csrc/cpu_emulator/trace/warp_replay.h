// Finds out which lanes of a warp execute an access together.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cpu_emulator/trace/cost.h"
#include "cpu_emulator/trace/report.h"

namespace smem::cpu_emulator::trace {

/// What a lane does at one instruction: an access, a meeting or the begin of a basic block.
struct alignas(16) LaneEvent {
  uint32_t pc;      ///< from the begin of the kernel's code
  uint16_t depth;   ///< of calls
  uint16_t memory;  ///< its number in the MemoryMap
  Action action;
  uint8_t bytes;

  /// All fields in two comparisons: this is asked of every event of every lane.
  bool operator==(const LaneEvent& other) const {
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
///
/// Most lanes do what the lanes before them did. So the warp keeps one path of events; a lane
/// follows it, noting addresses alone, until it does something else.
class WarpReplay {
 public:
  using Account = std::function<void(const LaneEvent& event, const Request& request)>;

  /// Adds the begin of a basic block, which has no address. This and the next two return how many
  /// events the lane has waiting.
  size_t add_pass(unsigned lane, const LaneEvent& event) { return add(lanes_[lane], event); }
  /// An access; a barrier or shuffle, whose address is 0.
  size_t add(unsigned lane, const LaneEvent& event, uint64_t address) {
    lanes_[lane].addresses.push_back(address);
    return add(lanes_[lane], event);
  }
  /// A copy, which has two addresses.
  size_t add_copy(unsigned lane, const LaneEvent& event, uint64_t address, uint64_t partner) {
    lanes_[lane].addresses.push_back(address);
    return add(lane, event, partner);
  }

  /// The lanes whose newest event is a barrier or shuffle that has not opened.
  uint32_t lanes_that_wait() const;
  /// The newest event of each of these lanes is a meeting that opens.
  void open_meeting(uint32_t lanes);

  /// Hands requests to `account` as far as the events tell which lanes execute them together, and
  /// forgets those events. `running` are the lanes that may add events.
  void drain(uint32_t running, const Account& account);

 private:
  struct Lane {
    size_t size = 0;              ///< how many events it has
    size_t left_path = SIZE_MAX;  ///< from this one on they are its own, before it the path's
    std::vector<LaneEvent> own;
    /// Of an access: where; and of a copy, the partner. Of a meeting: its number and the lanes that
    /// met, 0 until it opens.
    std::vector<uint64_t> addresses;
    size_t next = 0;  ///< the first event that has not been served
    size_t next_address = 0;

    bool is_served() const { return next == size; }
    uint64_t address() const { return addresses[next_address]; }
  };

  size_t add(Lane& lane, const LaneEvent& event) {
    const bool can_follow = lane.size < lane.left_path && lane.size < path_.size();
    if (!can_follow || !(path_[lane.size] == event)) extend_or_leave_path(lane, event);
    return ++lane.size;
  }
  [[gnu::noinline]] void extend_or_leave_path(Lane& lane, const LaneEvent& event);
  const LaneEvent& event(const Lane& lane, size_t i) const {
    return i < lane.left_path ? path_[i] : lane.own[i - lane.left_path];
  }
  const LaneEvent& head(const Lane& lane) const { return event(lane, lane.next); }

  /// Of the lanes that stand at an event, those to be executed next; 0 if there are none.
  uint32_t lanes_to_execute(uint32_t pending) const;
  /// Serves the events of the path that all the lanes are to execute next, up to a meeting.
  bool serve_path(uint32_t lanes, const Account& account);
  /// Serves the next event of all the lanes.
  void serve(uint32_t lanes, const Account& account);
  void note_rank(unsigned lane);
  void serve_request(const LaneEvent& event, uint32_t lanes, const Account& account);
  void forget_served();

  std::vector<LaneEvent> path_;
  Lane lanes_[WARP_SIZE];
  uint64_t ranks_[WARP_SIZE];  ///< while it drains, of the lanes' next events
  uint32_t meetings_ = 0;
};

}  // namespace smem::cpu_emulator::trace
