// Finds out which lanes of a warp execute an access together.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cpu_emulator/trace/cost.h"
#include "cpu_emulator/trace/report.h"

namespace smem::cpu_emulator::trace {

/// What a lane does at one instruction. There is one for every access and every basic block.
struct LaneEvent {
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

  /// The begin of a basic block, which has no address.
  void add_pass(unsigned lane, const LaneEvent& event) { add(lanes_[lane], event); }
  /// An access; a barrier or shuffle, whose address is 0.
  void add(unsigned lane, const LaneEvent& event, uint64_t address) {
    add(lanes_[lane], event);
    lanes_[lane].addresses.push_back(address);
  }
  /// A copy, which has two addresses.
  void add_copy(unsigned lane, const LaneEvent& event, uint64_t address, uint64_t partner) {
    add(lane, event, address);
    lanes_[lane].addresses.push_back(partner);
  }
  size_t size(unsigned lane) const { return lanes_[lane].size(); }

  /// The lanes whose newest event is a barrier or shuffle that has not opened.
  uint32_t lanes_that_wait() const;
  /// The newest event of each of these lanes is a meeting that opens.
  void open_meeting(uint32_t lanes);

  /// Hands requests to `account` as far as the events tell which lanes execute them together, and
  /// forgets those events. `running` are the lanes that may add events.
  void drain(uint32_t running, const Account& account);

 private:
  struct Lane {
    size_t followed = 0;         ///< this many events are the path's,
    std::vector<LaneEvent> own;  ///< and these come after them
    /// Of an access: where; and of a copy, the partner. Of a meeting: its number and the lanes that
    /// met, 0 until it opens.
    std::vector<uint64_t> addresses;
    size_t next = 0;  ///< the first event that has not been served
    size_t next_address = 0;

    size_t size() const { return followed + own.size(); }
    bool is_served() const { return next == size(); }
    uint64_t address() const { return addresses[next_address]; }
  };

  void add(Lane& lane, const LaneEvent& event) {
    if (lane.own.empty() && lane.followed == path_.size()) path_.push_back(event);
    if (lane.own.empty() && path_[lane.followed] == event) {
      ++lane.followed;
    } else {
      lane.own.push_back(event);
    }
  }
  const LaneEvent& event(const Lane& lane, size_t i) const {
    return i < lane.followed ? path_[i] : lane.own[i - lane.followed];
  }
  const LaneEvent& head(const Lane& lane) const { return event(lane, lane.next); }

  /// Of the lanes that stand at an event, those to be executed next; 0 if there are none.
  uint32_t lanes_to_execute(uint32_t pending) const;
  /// Whether all of them are at one access or basic block, as they are nearly always.
  bool are_converged(uint32_t pending) const;
  /// Whether two lanes execute their next events together. The memory of one request may differ
  /// between lanes; it then counts once for each.
  bool are_together(const Lane& a, const Lane& b) const;
  /// Serves the events of the path that all the lanes are to execute next, up to a meeting.
  bool serve_path(uint32_t lanes, const Account& account);
  /// Serves the next event of all the lanes.
  void serve(uint32_t lanes, const Account& account);
  void serve_request(const LaneEvent& event, uint32_t lanes, const Account& account);
  void forget_served();

  std::vector<LaneEvent> path_;
  Lane lanes_[WARP_SIZE];
  uint32_t meetings_ = 0;
};

}  // namespace smem::cpu_emulator::trace
