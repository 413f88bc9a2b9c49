// Spreads a grid's blocks over the cores.
#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "host_run/block.h"

namespace smem::host_run {

void run(dim3 grid, dim3 threads, size_t dynamic_shared_bytes, Body body, void* context,
         const MakeObserver& make_observer) {
  const int64_t blocks = int64_t{grid.x} * grid.y * grid.z;
  std::atomic<int64_t> next{0};
  std::exception_ptr error;
  std::mutex error_lock;

  const auto work = [&] {
    try {
      const auto observer = make_observer ? make_observer() : nullptr;
      Block block(grid, threads, dynamic_shared_bytes, body, context, observer.get());
      for (int64_t i = next++; i < blocks; i = next++) block.run(i);
    } catch (...) {
      const std::lock_guard<std::mutex> guard(error_lock);
      if (!error) error = std::current_exception();
      next = blocks;
    }
  };

  const int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> others;
  for (int64_t i = 1; i < std::min(cores, blocks); ++i) others.emplace_back(work);
  work();
  for (auto& other : others) other.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace smem::host_run
