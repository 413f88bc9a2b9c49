#include "cpu_emulator/trace/warp_log.h"

#include <bit>
#include <map>
#include <tuple>

namespace smem::cpu_emulator::trace {

bool Event::goes_with(const Event& other) const {
  return std::bit_cast<uintptr_t>(site) == std::bit_cast<uintptr_t>(other.site) &&
         iteration == other.iteration && action == other.action && memory == other.memory &&
         bytes == other.bytes;
}

void WarpLog::flush(const Account& account) {
  if (!flush_in_step(account)) flush_by_line(account);
  for (auto& lane : lanes_) lane.clear();
}

/// The common case, without a search: all lanes that did anything did the same.
bool WarpLog::flush_in_step(const Account& account) const {
  const std::vector<Event>* first = nullptr;
  uint32_t mask = 0;
  for (unsigned l = 0; l < WARP_SIZE; ++l) {
    if (lanes_[l].empty()) continue;
    mask |= 1u << l;
    if (!first) first = &lanes_[l];
    if (lanes_[l].size() != first->size()) return false;
    for (size_t i = 0; i < first->size(); ++i) {
      if (!lanes_[l][i].goes_with((*first)[i])) return false;
    }
  }
  if (!first) return true;
  for (size_t i = 0; i < first->size(); ++i) {
    Request request{mask, (*first)[i].bytes, {}, {}};
    for (unsigned l = 0; l < WARP_SIZE; ++l) {
      if (!(mask >> l & 1)) continue;
      request.address[l] = lanes_[l][i].address;
      request.partner[l] = lanes_[l][i].partner;
    }
    account((*first)[i], request, false);
  }
  return true;
}

void WarpLog::flush_by_line(const Account& account) const {
  struct Line {
    Event event;
    std::vector<Request> requests;
    size_t times[WARP_SIZE] = {};
  };
  using Key = std::tuple<uintptr_t, uint64_t, Action, uint16_t, uint8_t>;
  std::map<Key, Line> lines;
  for (unsigned l = 0; l < WARP_SIZE; ++l) {
    for (const Event& event : lanes_[l]) {
      const Key key{std::bit_cast<uintptr_t>(event.site), event.iteration, event.action,
                    event.memory, event.bytes};
      Line& line = lines.try_emplace(key, Line{event, {}}).first->second;
      const size_t k = line.times[l]++;
      if (k == line.requests.size()) line.requests.push_back({0, event.bytes, {}, {}});
      line.requests[k].mask |= 1u << l;
      line.requests[k].address[l] = event.address;
      line.requests[k].partner[l] = event.partner;
    }
  }
  for (const auto& [key, line] : lines) {
    bool ambiguous = false;
    for (const size_t times : line.times) {
      ambiguous |= times != 0 && times != line.requests.size();
    }
    for (const Request& request : line.requests) account(line.event, request, ambiguous);
  }
}

}  // namespace smem::cpu_emulator::trace
