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

/// What is executed first has the lowest number.
uint64_t rank(const LaneEvent& event) { return uint64_t{0xffffu - event.depth} << 32 | event.pc; }

template <typename Visit>
void for_each_lane(uint32_t lanes, const Visit& visit) {
  for (; lanes; lanes &= lanes - 1) visit(static_cast<unsigned>(std::countr_zero(lanes)));
}

}  // namespace

uint32_t WarpReplay::lanes_that_wait() const {
  uint32_t lanes = 0;
  for (unsigned l = 0; l < WARP_SIZE; ++l) {
    const Lane& lane = lanes_[l];
    if (lane.size() == 0) continue;
    if (is_meeting(event(lane, lane.size() - 1)) && lane.addresses.back() == 0) lanes |= 1u << l;
  }
  return lanes;
}

void WarpReplay::open_meeting(uint32_t lanes) {
  ++meetings_;
  for_each_lane(lanes, [&](unsigned l) {
    // Where nothing is counted, there are no events.
    if (lanes_[l].size() == 0) return;
    lanes_[l].addresses.back() = uint64_t{meetings_} << 32 | lanes;
  });
}

bool WarpReplay::are_together(const Lane& a, const Lane& b) const {
  return head(a) == head(b) && (!is_meeting(head(a)) || a.address() == b.address());
}

bool WarpReplay::are_converged(uint32_t pending) const {
  const LaneEvent& first = head(lanes_[std::countr_zero(pending)]);
  if (is_meeting(first)) return false;
  for (uint32_t others = pending & (pending - 1); others; others &= others - 1) {
    if (!(first == head(lanes_[std::countr_zero(others)]))) return false;
  }
  return true;
}

uint32_t WarpReplay::lanes_to_execute(uint32_t pending) const {
  const Lane* first = nullptr;
  uint32_t parked = 0;  // at meetings that not all lanes have come to
  for_each_lane(pending, [&](unsigned l) {
    const Lane& lane = lanes_[l];
    if (parked >> l & 1 || (first && rank(head(lane)) >= rank(head(*first)))) return;
    if (is_meeting(head(lane))) {
      uint32_t here = 0;
      for_each_lane(pending, [&](unsigned other) {
        const Lane& theirs = lanes_[other];
        if (is_meeting(head(theirs)) && theirs.address() == lane.address()) here |= 1u << other;
      });
      const auto met = static_cast<uint32_t>(lane.address());
      if (met == 0 || (here & met) != met) {
        parked |= here;
        return;
      }
    }
    first = &lane;
  });
  uint32_t lanes = 0;
  for_each_lane(first ? pending : 0, [&](unsigned l) {
    if (are_together(lanes_[l], *first)) lanes |= 1u << l;
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
  bool are_level = true;
  for_each_lane(lanes, [&](unsigned l) {
    are_level &= lanes_[l].next == begin;
    end = std::min(end, lanes_[l].followed);
  });
  if (!are_level) return false;
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
    if (!lanes_[l].is_served()) pending |= 1u << l;
  }
  // A lane that may add an event, and stands at none, may have to be executed first.
  while (pending && (running & ~pending) == 0) {
    if (!serve_path(pending, account)) {
      const uint32_t lanes = are_converged(pending) ? pending : lanes_to_execute(pending);
      if (lanes == 0) break;
      serve(lanes, account);
    }
    for_each_lane(pending, [&](unsigned l) {
      if (lanes_[l].is_served()) pending &= ~(1u << l);
    });
  }
  forget_served();
}

void WarpReplay::forget_served() {
  const auto none = [](const Lane& lane) { return lane.next == 0; };
  if (std::all_of(std::begin(lanes_), std::end(lanes_), none)) return;
  for (Lane& lane : lanes_) {
    // What is left of the path is the lane's own now: another lane may have left it.
    if (lane.next < lane.followed) {
      lane.own.insert(lane.own.begin(), path_.begin() + static_cast<std::ptrdiff_t>(lane.next),
                      path_.begin() + static_cast<std::ptrdiff_t>(lane.followed));
    } else {
      lane.own.erase(lane.own.begin(),
                     lane.own.begin() + static_cast<std::ptrdiff_t>(lane.next - lane.followed));
    }
    lane.addresses.erase(lane.addresses.begin(),
                         lane.addresses.begin() + static_cast<std::ptrdiff_t>(lane.next_address));
    lane.followed = lane.next = lane.next_address = 0;
  }
  path_.clear();
}

}  // namespace smem::cpu_emulator::trace
