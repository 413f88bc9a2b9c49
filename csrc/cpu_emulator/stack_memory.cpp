#include "cpu_emulator/stack_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <new>
#include <thread>

namespace smem::cpu_emulator {

namespace {

// So much stays as it is: to give it back would take longer than a small kernel.
constexpr size_t KEPT_BYTES = size_t{16} << 20;

std::mutex lock;
std::multimap<size_t, unsigned char*> kept;  // by their bytes

}  // namespace

StackMemory::StackMemory(size_t bytes) : used_(bytes), bytes_(bytes) {
  {
    const std::lock_guard<std::mutex> guard(lock);
    if (const auto found = kept.lower_bound(bytes); found != kept.end()) {
      bytes_ = found->first;
      memory_ = found->second;
      kept.erase(found);
      return;
    }
  }
  void* const fresh = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (fresh == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<unsigned char*>(fresh);
}

StackMemory::~StackMemory() {
  // The system may take the pages while no kernel runs.
  if (used_ > KEPT_BYTES) madvise(memory_, used_, MADV_FREE);
  const std::lock_guard<std::mutex> guard(lock);
  kept.emplace(bytes_, memory_);
  if (kept.size() <= std::max(1u, std::thread::hardware_concurrency())) return;
  const auto smallest = kept.begin();
  munmap(smallest->second, smallest->first);
  kept.erase(smallest);
}

}  // namespace smem::cpu_emulator
