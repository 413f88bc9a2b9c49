// Spreads a grid's blocks, or its clusters, over the cores.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "cpu_emulator/cluster.h"
#include "cpu_emulator/interrupt.h"
#include "cpu_emulator/traps.h"

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

/// How the blocks of a launch that runs on this operating-system thread learn of its end.
struct Stop {
  InterruptPoll* poll;  ///< null on the threads that did not call `run`
  const std::atomic<bool>& stopped;
};
thread_local const Stop* stop = nullptr;

}  // namespace

void throw_if_interrupted() {
  if (stop->poll) stop->poll->throw_if_interrupted();
  if (stop->stopped) throw Interrupted();
}

void set_interrupt_check(bool (*is_interrupted)()) { interrupt_check = is_interrupted; }

void run(dim3 grid, dim3 threads, size_t dynamic_shared_bytes, Body body, void* context,
         const MakeObserver& make_observer, const std::vector<int64_t>& only_clusters,
         unsigned cluster_size) {
  const int64_t clusters = only_clusters.empty() ? int64_t{grid.x} * grid.y * grid.z / cluster_size
                                                 : static_cast<int64_t>(only_clusters.size());
  std::atomic<int64_t> next{0};
  // Clusters start in order, so the first of those that fail is the same in every run.
  std::exception_ptr error;
  int64_t failed = clusters;
  std::mutex error_lock;
  std::atomic<bool> stopped{false};
  const TrapGuard traps;

  const auto work = [&](InterruptPoll* poll) {
    int64_t i = 0;
    const Stop here{poll, stopped};
    const Stop* const outer = std::exchange(stop, &here);  // a signal handler may launch, too
    try {
      Cluster cluster(cluster_size, grid, threads, dynamic_shared_bytes, body, context,
                      make_observer);
      for (i = next++; i < clusters; i = next++) {
        throw_if_interrupted();
        cluster.run(only_clusters.empty() ? i : only_clusters[static_cast<size_t>(i)]);
      }
    } catch (const Interrupted&) {
      const std::lock_guard<std::mutex> guard(error_lock);
      failed = -1;  // whatever else goes wrong
      error = std::current_exception();
      next = clusters;
      stopped = true;
    } catch (...) {
      const std::lock_guard<std::mutex> guard(error_lock);
      if (i < failed) {
        failed = i;
        error = std::current_exception();
      }
      next = clusters;
    }
    stop = outer;
  };

  const int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> others;
  try {
    for (int64_t i = 1; i < std::min(cores, clusters); ++i) others.emplace_back(work, nullptr);
  } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): those that there are do
  }
  InterruptPoll poll;
  work(&poll);
  for (auto& other : others) other.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace smem::cpu_emulator
