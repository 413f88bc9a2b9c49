#include "cpu_emulator/trace/warp_replay.h"

#include <algorithm>
#include <bit>

namespace smem::cpu_emulator::trace {

namespace {

bool is_meeting(const LaneEvent& event) {
  return event.action == Action::barrier || event.action == Action::warp_barrier ||
         event.action == Action::shuffle;
}

bool is_copy(const LaneEvent& event) {
  return event.action == Action::copy_from || event.action == Action::copy_to;
}

template <typename Visit>
void for_each_lane(uint32_t lanes, const Visit& visit) {
  for (; lanes; lanes &= lanes - 1) visit(static_cast<unsigned>(std::countr_zero(lanes)));
}

}  // namespace

void WarpReplay::extend_or_leave_path(Lane& lane, const LaneEvent& event) {
  if (lane.left_path == SIZE_MAX && lane.size == path_.size()) {
    path_.push_back(event);
  } else {
    lane.left_path = std::min(lane.left_path, lane.size);
    lane.own.push_back(event);
  }
}

uint32_t WarpReplay::lanes_that_wait() const {
  uint32_t lanes = 0;
  for (unsigned l = 0; l < WARP_SIZE; ++l) {
    const Lane& lane = lanes_[l];
    if (lane.size == 0) continue;
    if (is_meeting(event(lane, lane.size - 1)) && lane.addresses.back() == 0) lanes |= 1u << l;
  }
  return lanes;
}

void WarpReplay::open_meeting(uint32_t lanes) {
  ++meetings_;
  for_each_lane(lanes, [&](unsigned l) {
    // Where nothing is counted, there are no events.
    if (lanes_[l].size == 0) return;
    lanes_[l].addresses.back() = uint64_t{meetings_} << 32 | lanes;
  });
}

/// What is executed first has the lowest number.
void WarpReplay::note_rank(unsigned lane) {
  const LaneEvent& next = head(lanes_[lane]);
  ranks_[lane] = uint64_t{0xffffu - next.depth} << 32 | next.pc;
}

uint32_t WarpReplay::lanes_to_execute(uint32_t pending) const {
  constexpr unsigned NONE = WARP_SIZE;
  unsigned first = NONE;
  uint32_t parked = 0;  // at meetings that not all lanes have come to
  for_each_lane(pending, [&](unsigned l) {
    if (parked >> l & 1 || (first != NONE && ranks_[l] >= ranks_[first])) return;
    if (is_meeting(head(lanes_[l]))) {
      const uint64_t meeting = lanes_[l].address();
      uint32_t here = 0;
      for_each_lane(pending, [&](unsigned other) {
        const Lane& theirs = lanes_[other];
        if (is_meeting(head(theirs)) && theirs.address() == meeting) here |= 1u << other;
      });
      const auto met = static_cast<uint32_t>(meeting);
      if (met == 0 || (here & met) != met) {
        parked |= here;
        return;
      }
    }
    first = l;
  });
  if (first == NONE) return 0;
  // The memory of one request may differ between lanes; it then counts once for each.
  const Lane& lane = lanes_[first];
  const LaneEvent& event = head(lane);
  uint32_t lanes = 0;
  for_each_lane(pending, [&](unsigned l) {
    const Lane& other = lanes_[l];
    if (ranks_[l] != ranks_[first] || !(head(other) == event)) return;
    if (!is_meeting(event) || other.address() == lane.address()) lanes |= 1u << l;
  });
  return lanes;
}

void WarpReplay::serve_request(const LaneEvent& event, uint32_t lanes, const Account& account) {
  if (event.action == Action::pass) return;
  Request request;
  request.mask = lanes;
  request.bytes = event.bytes;
  for_each_lane(lanes, [&](unsigned l) {
    Lane& lane = lanes_[l];
    request.address[l] = lane.addresses[lane.next_address++];
    if (is_copy(event)) request.partner[l] = lane.addresses[lane.next_address++];
  });
  account(event, request);
}

bool WarpReplay::serve_path(uint32_t lanes, const Account& account) {
  const size_t begin = lanes_[std::countr_zero(lanes)].next;
  size_t end = path_.size();
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    const Lane& lane = lanes_[std::countr_zero(rest)];
    end = std::min({end, lane.size, lane.left_path});
    if (lane.next != begin || begin >= end) return false;
  }
  size_t next = begin;
  for (; next < end && !is_meeting(path_[next]); ++next) {
    serve_request(path_[next], lanes, account);
  }
  for_each_lane(lanes, [&](unsigned l) { lanes_[l].next = next; });
  return next > begin;
}

void WarpReplay::serve(uint32_t lanes, const Account& account) {
  serve_request(head(lanes_[std::countr_zero(lanes)]), lanes, account);
  for_each_lane(lanes, [&](unsigned l) { ++lanes_[l].next; });
}

void WarpReplay::drain(uint32_t running, const Account& account) {
  uint32_t pending = 0;
  for (unsigned l = 0; l < WARP_SIZE; ++l) {
    if (lanes_[l].is_served()) continue;
    pending |= 1u << l;
    note_rank(l);
  }
  // A lane that may add an event, and stands at none, may have to be executed first.
  while (pending && (running & ~pending) == 0) {
    uint32_t lanes = pending;
    if (!serve_path(lanes, account)) {
      lanes = lanes_to_execute(pending);
      if (lanes == 0) break;
      serve(lanes, account);
    }
    for_each_lane(lanes, [&](unsigned l) {
      if (lanes_[l].is_served()) {
        pending &= ~(1u << l);
      } else {
        note_rank(l);
      }
    });
  }
  forget_served();
}

void WarpReplay::forget_served() {
  const auto none = [](const Lane& lane) { return lane.next == 0; };
  if (std::all_of(std::begin(lanes_), std::end(lanes_), none)) return;
  const auto erase_first = [](auto& items, size_t count) {
    items.erase(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(count));
  };
  for (Lane& lane : lanes_) {
    // What is left of the path is the lane's own now: another lane may have left it.
    const size_t followed = std::min(lane.left_path, lane.size);
    if (lane.next < followed) {
      lane.own.insert(lane.own.begin(), path_.begin() + static_cast<std::ptrdiff_t>(lane.next),
                      path_.begin() + static_cast<std::ptrdiff_t>(followed));
    } else {
      erase_first(lane.own, lane.next - followed);
    }
    erase_first(lane.addresses, lane.next_address);
    lane.size = lane.own.size();
    lane.left_path = lane.size > 0 ? 0 : SIZE_MAX;
    lane.next = lane.next_address = 0;
  }
  path_.clear();
}

}  // namespace smem::cpu_emulator::trace
