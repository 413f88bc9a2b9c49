#include "cpu_emulator/trace/warp_replay.h"

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

/// Whether two lanes execute their events together. The memory of one request may differ between
/// lanes; it then counts once for each.
bool together(const LaneEvent& a, const LaneEvent& b) {
  return a.is_like(b) && (!is_meeting(a) || a.address == b.address);
}

template <typename Visit>
void for_each_lane(uint32_t lanes, const Visit& visit) {
  for (; lanes; lanes &= lanes - 1) visit(static_cast<unsigned>(std::countr_zero(lanes)));
}

}  // namespace

uint32_t WarpReplay::lanes_that_wait() const {
  uint32_t lanes = 0;
  for (unsigned l = 0; l < WARP_SIZE; ++l) {
    if (lanes_[l].events.empty()) continue;
    const LaneEvent& newest = lanes_[l].events.back();
    if (is_meeting(newest) && newest.address == 0) lanes |= 1u << l;
  }
  return lanes;
}

void WarpReplay::open_meeting(uint32_t lanes) {
  ++meetings_;
  for_each_lane(lanes, [&](unsigned l) {
    // Where nothing is counted, there are no events.
    if (lanes_[l].events.empty()) return;
    lanes_[l].events.back().address = uint64_t{meetings_} << 32 | lanes;
  });
}

bool WarpReplay::are_converged(uint32_t pending) const {
  const LaneEvent& first = lanes_[std::countr_zero(pending)].head();
  if (is_meeting(first)) return false;
  for (uint32_t others = pending & (pending - 1); others; others &= others - 1) {
    if (!first.is_like(lanes_[std::countr_zero(others)].head())) return false;
  }
  return true;
}

uint32_t WarpReplay::lanes_with_head(const LaneEvent& event, uint32_t pending) const {
  uint32_t lanes = 0;
  for_each_lane(pending, [&](unsigned l) {
    if (together(lanes_[l].head(), event)) lanes |= 1u << l;
  });
  return lanes;
}

uint32_t WarpReplay::lanes_to_execute(uint32_t pending) const {
  const LaneEvent* first = nullptr;
  uint32_t parked = 0;  // at meetings that not all lanes have come to
  for_each_lane(pending, [&](unsigned l) {
    const LaneEvent& event = lanes_[l].head();
    if (parked >> l & 1 || (first && rank(event) >= rank(*first))) return;
    if (is_meeting(event)) {
      uint32_t here = 0;
      for_each_lane(pending, [&](unsigned other) {
        const LaneEvent& theirs = lanes_[other].head();
        if (is_meeting(theirs) && theirs.address == event.address) here |= 1u << other;
      });
      const auto met = static_cast<uint32_t>(event.address);
      if (met == 0 || (here & met) != met) {
        parked |= here;
        return;
      }
    }
    first = &event;
  });
  return first ? lanes_with_head(*first, pending) : 0;
}

void WarpReplay::serve(uint32_t lanes, const Account& account) {
  const LaneEvent event = lanes_[std::countr_zero(lanes)].head();
  if (event.action == Action::pass) {
    for_each_lane(lanes, [&](unsigned l) { ++lanes_[l].next; });
    return;
  }
  Request request;
  request.mask = lanes;
  request.bytes = event.bytes;
  for_each_lane(lanes, [&](unsigned l) {
    Lane& lane = lanes_[l];
    request.address[l] = lane.head().address;
    if (is_copy(event)) request.partner[l] = lane.partners[lane.next_partner++];
    ++lane.next;
  });
  account(event, request);
}

void WarpReplay::drain(uint32_t running, const Account& account) {
  uint32_t pending = 0;
  for (unsigned l = 0; l < WARP_SIZE; ++l) {
    if (!lanes_[l].is_served()) pending |= 1u << l;
  }
  // A lane that may add an event, and stands at none, may have to be executed first.
  while (pending && (running & ~pending) == 0) {
    const uint32_t lanes = are_converged(pending) ? pending : lanes_to_execute(pending);
    if (lanes == 0) break;
    serve(lanes, account);
    for_each_lane(lanes, [&](unsigned l) {
      if (lanes_[l].is_served()) pending &= ~(1u << l);
    });
  }
  forget_served();
}

void WarpReplay::forget_served() {
  const auto forget = [](auto& items, size_t& next) {
    items.erase(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(next));
    next = 0;
  };
  for (Lane& lane : lanes_) {
    forget(lane.events, lane.next);
    forget(lane.partners, lane.next_partner);
  }
}

}  // namespace smem::cpu_emulator::trace
