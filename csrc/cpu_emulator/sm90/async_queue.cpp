#include "cpu_emulator/sm90/async_queue.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

namespace smem::cpu_emulator::sm90 {

namespace {
// Between two waits the threads of a warpgroup make some 1300 calls.
constexpr uint64_t LONGEST_DELAY_LOG2 = 13, CALLS_BETWEEN_YIELDS = 128;
// A thread that does not wait for the init of a barrier uses it after fewer turns.
constexpr int MOST_TURNS = 32;
}  // namespace

AsyncQueue::AsyncQueue() {
  const char* const setting = std::getenv("SMEM_ASYNC_TIMING");
  const std::string text = setting ? setting : "";
  if (text == "early") {
    timing_ = Timing::early;
  } else if (text == "late") {
    timing_ = Timing::late;
  } else {
    seed_ = std::strtoull(text.c_str(), nullptr, 10);
  }
}

void AsyncQueue::begin(uint64_t cluster) {
  state_ = (seed_ << 32) + cluster;
  now_ = issued_ = 0;
  next_due_ = UINT64_MAX;
  pending_.clear();
}

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
uint64_t AsyncQueue::random() {
  uint64_t z = state_ += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

/// Short and long delays are equally likely: 0, 1, 2 to 3, 4 to 7 ...
uint64_t AsyncQueue::delay() {
  const uint64_t log2 = random() % (LONGEST_DELAY_LOG2 + 1);
  return log2 == 0 ? 0 : (1ull << log2) / 2 + random() % ((1ull << log2) / 2);
}

void AsyncQueue::issue(Operation operation) {
  if (timing_ == Timing::early) return operation();
  const uint64_t due = timing_ == Timing::late ? UINT64_MAX - ++issued_ : now_ + 1 + delay();
  next_due_ = std::min(next_due_, due);
  pending_.push_back({due, std::move(operation)});
}

void AsyncQueue::happen(size_t index) {
  const Operation operation = std::move(pending_[index].operation);
  pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(index));
  next_due_ = UINT64_MAX;
  for (const Pending& each : pending_) next_due_ = std::min(next_due_, each.due);
  operation();  // may issue another one
}

bool AsyncQueue::tick() {
  ++now_;
  while (next_due_ <= now_) advance();
  return timing_ == Timing::random && random() % CALLS_BETWEEN_YIELDS == 0;
}

int AsyncQueue::turns_before_init() {
  return timing_ == Timing::early  ? 0
         : timing_ == Timing::late ? MOST_TURNS
                                   : static_cast<int>(random() % MOST_TURNS);
}

int AsyncQueue::turns_after_arrival() {
  return timing_ == Timing::early  ? 0
         : timing_ == Timing::late ? 1
                                   : static_cast<int>(random() % 2);
}

bool AsyncQueue::advance() {
  if (pending_.empty()) return false;
  const auto next =
      std::min_element(pending_.begin(), pending_.end(),
                       [](const Pending& a, const Pending& b) { return a.due < b.due; });
  if (timing_ == Timing::random) now_ = std::max(now_, next->due);
  happen(static_cast<size_t>(next - pending_.begin()));
  return true;
}

void AsyncQueue::drain() {
  while (advance()) {
  }
}

}  // namespace smem::cpu_emulator::sm90
