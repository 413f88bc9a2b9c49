#include "cpu_emulator/sm90/mbarrier.h"

#include <utility>

#include "cpu_emulator/fault.h"

namespace smem::cpu_emulator::sm90 {

namespace {
constexpr int64_t MOST_BYTES = (1 << 20) - 1;  // PTX ISA, "Valid range of tx-count"
}  // namespace

bool Mbarrier::complete_if_due() {
  if (arrivals_left > 0 || bytes_left != 0) return false;
  arrivals_left = count;
  ++phase;
  released[phase % 2].clear();
  return true;
}

bool Mbarrier::is_first_wait(unsigned warp, uint32_t parity) {
  const uint64_t awaited = phase + (has_completed(parity) ? 0 : 1);
  const auto [last, is_new] = waited.try_emplace(warp, awaited);
  return is_new || std::exchange(last->second, awaited) != awaited;
}

void Mbarriers::init(uint32_t offset, uint32_t count, Site site) {
  if (count == 0) fail(block_, "mbarrier", "init with a count of 0", site);
  if (offset % sizeof(uint64_t) != 0) {
    fail(block_, "misaligned", "an mbarrier is not at a multiple of 8 bytes", site);
  }
  barriers_[offset] = {count, count};
}

void Mbarriers::publish() {
  for (auto& [offset, barrier] : barriers_) barrier.published = true;
}

Mbarrier& Mbarriers::find(uint32_t offset, bool is_own_thread, Site site) {
  const auto found = barriers_.find(offset);
  if (found == barriers_.end()) {
    fail(block_, "mbarrier", "it is used before its init", site);
  }
  if (!is_own_thread && !found->second.published) {
    fail(block_, "missing fence",
         "another block or TMA uses an mbarrier without fence.mbarrier_init after its init", site);
  }
  return found->second;
}

void Mbarriers::complete_if_due(uint32_t offset, Mbarrier& barrier) {
  if (!barrier.complete_if_due()) return;
  ++block_.ring().progress;
  if (auto* const observer = block_.observer()) observer->phase_completes(offset);
}

void Mbarriers::count_arrival(uint32_t offset, Mbarrier& barrier, Site site) {
  if (barrier.arrivals_left == 0) {
    fail(block_, "mbarrier",
         "more than " + std::to_string(barrier.count) +
             " arrivals in a phase, which still waits for " + std::to_string(barrier.bytes_left) +
             " bytes",
         site);
  }
  --barrier.arrivals_left;
  complete_if_due(offset, barrier);
}

void Mbarriers::arrive(uint32_t offset, uint32_t expected_bytes, bool from_other_block, Site site) {
  Mbarrier& barrier = find(offset, !from_other_block, site);
  if (block_.alive() == 0) {
    fail(block_, "mbarrier", "an arrival in a block that has ended", site);
  }
  barrier.bytes_left += expected_bytes;
  if (barrier.bytes_left > MOST_BYTES) {
    fail(block_, "mbarrier",
         std::to_string(barrier.bytes_left) + " bytes are expected, at most " +
             std::to_string(MOST_BYTES) + " may be",
         site);
  }
  // An arrival in another block publishes nothing: it is relaxed (device/mbarrier.h).
  if (auto* const observer = block_.observer(); observer && !from_other_block) {
    observer->release(current_thread->linear, barrier.released[barrier.phase % 2]);
  }
  count_arrival(offset, barrier, site);
}

void Mbarriers::arrive_after_copies(uint32_t offset, AsyncQueue& async, Site site) {
  // The phase cannot complete before the arrival: it still is the same one then.
  Mbarrier& barrier = find(offset, true, site);
  if (auto* const observer = block_.observer()) {
    observer->release(current_thread->linear, barrier.released[barrier.phase % 2]);
  }
  int& bound_groups = block_.bound_groups();
  ++bound_groups;
  async.issue([=, this, &barrier, &bound_groups,
               copies = std::exchange(block_.open_copies(), {})]() mutable {
    block_.land(copies);
    --bound_groups;
    ++block_.ring().progress;
    count_arrival(offset, barrier, site);
  });
}

void Mbarriers::complete_bytes(uint32_t offset, uint32_t bytes, Site site) {
  Mbarrier& barrier = find(offset, false, site);
  barrier.bytes_left -= bytes;
  complete_if_due(offset, barrier);
}

void Mbarriers::wait(uint32_t offset, uint32_t parity, Site site) {
  Mbarrier& barrier = find(offset, true, site);
  if (auto* const observer = block_.observer()) {
    const unsigned warp = current_thread->linear / WARP_SIZE;
    observer->mbarrier_wait(barrier.is_first_wait(warp, parity), barrier.has_completed(parity),
                            site);
  }
  block_.wait_until([&] { return barrier.has_completed(parity); }, "mbarrier.try_wait", site);
  if (auto* const observer = block_.observer()) {
    observer->acquire(current_thread->linear, barrier.released[parity]);
  }
}

std::string Mbarriers::describe() const {
  std::string text;
  int number = 0;
  for (const auto& [offset, barrier] : barriers_) {
    text += "; mbarrier " + std::to_string(number++) + " of block " +
            std::to_string(block_.index()) + ": phase " + std::to_string(barrier.phase) + ", " +
            std::to_string(barrier.arrivals_left) + " of " + std::to_string(barrier.count) +
            " arrivals and " + std::to_string(barrier.bytes_left) + " bytes missing";
  }
  return text;
}

}  // namespace smem::cpu_emulator::sm90
