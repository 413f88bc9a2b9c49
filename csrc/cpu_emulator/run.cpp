// Spreads a grid's blocks over the cores.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "cpu_emulator/block.h"
#include "cpu_emulator/interrupt.h"

namespace smem::cpu_emulator {

namespace {

std::atomic<bool (*)()> interrupt_check{nullptr};

/// Calls the interrupt check, but not more often than a person notices: the check may have to wait
/// for a lock, such as Python's.
class InterruptPoll {
 public:
  void throw_if_interrupted() {
    bool (*const is_interrupted)() = interrupt_check;
    const auto now = Clock::now();
    if (!is_interrupted || now < next_) return;
    next_ = now + INTERVAL;
    if (is_interrupted()) throw Interrupted();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr auto INTERVAL = std::chrono::milliseconds(50);
  Clock::time_point next_ = Clock::now() + INTERVAL;
};

}  // namespace

void set_interrupt_check(bool (*is_interrupted)()) { interrupt_check = is_interrupted; }

void run(dim3 grid, dim3 threads, size_t dynamic_shared_bytes, Body body, void* context,
         const MakeObserver& make_observer) {
  const int64_t blocks = int64_t{grid.x} * grid.y * grid.z;
  std::atomic<int64_t> next{0};
  std::exception_ptr error;
  std::mutex error_lock;

  const auto work = [&](InterruptPoll* poll) {
    try {
      const auto observer = make_observer ? make_observer() : nullptr;
      Block block(grid, threads, dynamic_shared_bytes, body, context, observer.get());
      for (int64_t i = next++; i < blocks; i = next++) {
        if (poll) poll->throw_if_interrupted();
        block.run(i);
      }
    } catch (...) {
      const std::lock_guard<std::mutex> guard(error_lock);
      if (!error) error = std::current_exception();
      next = blocks;
    }
  };

  const int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> others;
  for (int64_t i = 1; i < std::min(cores, blocks); ++i) others.emplace_back(work, nullptr);
  InterruptPoll poll;
  work(&poll);
  for (auto& other : others) other.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace smem::cpu_emulator
