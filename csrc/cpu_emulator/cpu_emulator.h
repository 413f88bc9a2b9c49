// Runs a SIMT kernel on the CPU: the threads of a block are fibers on one operating-system thread,
// blocks are spread over the cores. A fiber runs until it waits (barrier, shuffle) or ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>

#include "cpu_emulator/site.h"

namespace smem::cpu_emulator {

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};

class Block;
class Observer;

struct Thread {
  dim3 index, block_index, block_threads, grid;
  unsigned linear;  ///< x + y * block_threads.x + z * block_threads.x * block_threads.y
  Block* block;
  Observer* observer;  ///< null without a tracer
  uint64_t iteration;  ///< identifies the iteration of its loops; traced build only
};

/// The running fiber's thread; set at every switch.
extern thread_local Thread* current_thread;

constexpr unsigned WARP_SIZE = 32;

inline unsigned lane() { return current_thread->linear % WARP_SIZE; }

void sync_threads(Site site);
void sync_warp(unsigned mask, Site site);

/// The block's dynamic shared memory and its size in bytes.
std::pair<void*, size_t> dynamic_shared();

/// A destination in shared memory.
struct SharedRun {
  void* to;
  int bytes;
};

/// Emulates cp.async: reads the first `bytes_read` bytes (the others become zero) and writes them
/// at the wait for the copy's group.
void cp_async(SharedRun shared, const void* global, int bytes_read);
void cp_async_commit();
void cp_async_wait(int groups_left);
void cp_async_wait_all();

/// Every lane in `mask` contributes its bytes (up to 8) and receives those of `source`, or its own
/// if `source` is not in the mask.
uint64_t shuffle_bits(unsigned mask, uint64_t bits, int bytes, unsigned source, Site site);

template <typename T>
T shuffle(unsigned mask, T value, unsigned source, Site site) {
  static_assert(sizeof(T) <= sizeof(uint64_t), "a shuffle moves at most 8 bytes a lane");
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = shuffle_bits(mask, bits, int{sizeof(T)}, source, site);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

/// All remaining threads wait for each other.
struct Deadlock : std::runtime_error {
  using std::runtime_error::runtime_error;
};

using Body = void (*)(void* context);
using MakeObserver = std::function<std::unique_ptr<Observer>()>;

/// Runs `body(context)` once for every thread of every block. Throws what a thread threw, and
/// Deadlock. `make_observer` is called once for each core that takes part.
void run(dim3 grid, dim3 threads, size_t dynamic_shared_bytes, Body body, void* context,
         const MakeObserver& make_observer = {});

template <typename F>
void run(dim3 grid, dim3 threads, size_t dynamic_shared_bytes, F body) {
  run(grid, threads, dynamic_shared_bytes, [](void* f) { (*static_cast<F*>(f))(); }, &body);
}

}  // namespace smem::cpu_emulator
