#include "cpu_emulator/async_barrier.h"

#include "cpu_emulator/fault.h"

namespace smem::cpu_emulator {

namespace {
constexpr int64_t MOST_ARRIVALS = (1 << 20) - 1;  // PTX ISA, "Valid range of count"
}  // namespace

void AsyncBarriers::fail(const std::string& detail, Site site) {
  record_fault(block_, "cuda::barrier", detail, site);
  block_.abandon();
}

void AsyncBarriers::init(const void* address, int64_t expected, Site site) {
  if (expected < 1 || expected > MOST_ARRIVALS) {
    fail("init with a count of " + std::to_string(expected), site);
  }
  barriers_[address] = {expected, expected};
  if (auto* const observer = block_.observer()) observer->barrier_used(address, true, site);
}

AsyncBarriers::Barrier& AsyncBarriers::find(const void* barrier, Site site) {
  const auto found = barriers_.find(barrier);
  if (found == barriers_.end()) fail("it is used before its init", site);
  if (auto* const observer = block_.observer()) observer->barrier_used(barrier, false, site);
  return found->second;
}

bool AsyncBarriers::arrive(const void* address, int64_t arrivals, bool drops, Site site) {
  Barrier& barrier = find(address, site);
  if (arrivals < 1 || arrivals > barrier.missing) {
    fail(std::to_string(arrivals) + " arrivals in a phase that lacks " +
             std::to_string(barrier.missing) + " of " + std::to_string(barrier.expected),
         site);
  }
  const bool parity = barrier.parity();
  if (auto* const observer = block_.observer()) {
    observer->release(current_thread->linear, barrier.released[parity]);
  }
  if (drops) --barrier.expected;
  barrier.missing -= arrivals;
  ++block_.ring().progress;
  if (barrier.missing == 0) complete(barrier);
  return parity;
}

void AsyncBarriers::complete(Barrier& barrier) {
  block_.land(barrier.copies);
  barrier.missing = barrier.expected;
  ++barrier.phase;
  barrier.released[barrier.parity()].clear();
}

void AsyncBarriers::bind_copies(const void* address, Site site) {
  Barrier& barrier = find(address, site);
  auto& open_group = block_.open_copies();
  barrier.copies.insert(barrier.copies.end(), open_group.begin(), open_group.end());
  open_group.clear();
  if (auto* const observer = block_.observer()) {
    observer->release(current_thread->linear, barrier.released[barrier.parity()]);
  }
}

void AsyncBarriers::wait(const void* address, bool parity, Site site) {
  Barrier& barrier = find(address, site);
  ++barrier.waiting;
  block_.wait_until([&] { return barrier.parity() != parity; }, "cuda::barrier", site);
  --barrier.waiting;
  if (auto* const observer = block_.observer()) {
    observer->acquire(current_thread->linear, barrier.released[parity]);
  }
}

std::string AsyncBarriers::describe() const {
  std::string text;
  for (const auto& [address, barrier] : barriers_) {
    if (barrier.waiting == 0) continue;
    text += "; a cuda::barrier lacks " + std::to_string(barrier.missing) + " of " +
            std::to_string(barrier.expected) + " arrivals";
  }
  return text;
}

}  // namespace smem::cpu_emulator
