// Finds out which lanes of a warp execute an access together.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cpu_emulator/trace/cost.h"
#include "cpu_emulator/trace/report.h"

namespace smem::cpu_emulator::trace {

/// An access by one lane at one line.
struct Event {
  Site site;
  uint64_t iteration;  ///< of the loops around it
  uint64_t address;
  uint64_t partner;  ///< of a copy: its other end, or NOWHERE
  uint16_t memory;   ///< which tensor, or shared memory
  Action action;
  uint8_t bytes;

  bool goes_with(const Event& other) const;
};

/// Lanes run one after the other here, together on the GPU. Each lane's events are kept until the
/// whole warp has come to the same point (a barrier, a shuffle of all lanes, its end). Then events
/// of the same line in the same iteration of the same loops are one request of the warp; a line
/// that a lane reaches several times in one iteration (by a helper function without a Site of its
/// own) makes as many requests, the k-th of each lane together. If lanes reached it different
/// numbers of times, that is a guess, and the requests are marked ambiguous.
class WarpLog {
 public:
  using Account = std::function<void(const Event& event, const Request& request, bool ambiguous)>;

  void add(unsigned lane, const Event& event) { lanes_[lane].push_back(event); }
  /// Hands every request to `account` and forgets the events.
  void flush(const Account& account);

 private:
  bool flush_in_step(const Account& account) const;
  void flush_by_line(const Account& account) const;

  std::vector<Event> lanes_[WARP_SIZE];
};

}  // namespace smem::cpu_emulator::trace
