// Runs a SIMT kernel on the CPU: the threads of a block are fibers on one operating-system thread,
// blocks are spread over the cores. A fiber runs until it waits (barrier, shuffle) or ends.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include "cpu_emulator/launch.h"

namespace smem::cpu_emulator {

class Block;
class Observer;

/// Arithmetic of one thread. A fused multiply-add is one of these, and 2 FLOP.
struct Operations {
  uint64_t fma = 0, add = 0, multiply = 0, divide = 0;
  uint64_t special = 0;  ///< exp, erf, tanh: several instructions each on the GPU

  void operator+=(const Operations& other) {
    fma += other.fma;
    add += other.add;
    multiply += other.multiply;
    divide += other.divide;
    special += other.special;
  }
};

struct Thread {
  dim3 index, block_index, block_threads, grid;
  unsigned linear;  ///< x + y * block_threads.x + z * block_threads.x * block_threads.y
  Block* block;
  Observer* observer;                ///< null without a tracer
  const unsigned char* stack_limit;  ///< a function entered below has too little stack
  uint64_t steps_left = 0;           ///< basic blocks and accesses until it counts as endless
  unsigned depth = 0;                ///< calls of functions that have not returned
  bool in_emulator = true;           ///< what it executes is not the kernel: see InEmulator
  bool logs = false;                 ///< the observer keeps events, not faults only
  bool lets_others_run = false;      ///< the observer wants other lanes to catch up
  Operations operations{};
};

/// The running fiber's thread; set at every switch.
extern constinit thread_local Thread* current_thread;

/// How many blocks in this process have an observer. While there are none, a kernel's callbacks
/// return without looking for their thread.
extern std::atomic<int> observed_blocks;
inline bool is_observed() { return observed_blocks.load(std::memory_order_relaxed) != 0; }

/// While this object exists, the running thread executes the emulator, and the kernel's callbacks
/// do nothing: a function of the C++ library that both use is linked once, perhaps the kernel's
/// copy, which calls back.
class InEmulator {
 public:
  explicit InEmulator(Thread* thread = current_thread) : thread_(thread) {
    thread_->in_emulator = true;
  }
  ~InEmulator() { thread_->in_emulator = false; }
  InEmulator(const InEmulator&) = delete;
  InEmulator& operator=(const InEmulator&) = delete;

 private:
  Thread* thread_;
};

constexpr unsigned WARP_SIZE = 32;

inline unsigned lane() { return current_thread->linear % WARP_SIZE; }

/// A destination in shared memory.
struct SharedRun {
  void* to;
  int bytes;
};

/// The launch has no end: all remaining threads wait for each other, or one is in an endless loop.
struct Deadlock : std::runtime_error {
  using std::runtime_error::runtime_error;
};

using MakeObserver = std::function<std::unique_ptr<Observer>()>;

/// The kernel does what is undefined on a GPU.
struct KernelFault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Runs `body(context)` once for every thread of every block, or of `only_clusters` if there are
/// any (their numbers, x first; a cluster is `cluster_size` blocks, mostly one). Throws what a
/// thread threw, Deadlock and KernelFault. `make_observer` is called for each block of a cluster,
/// once for each core that takes part.
void run(dim3 grid, dim3 threads, size_t dynamic_shared_bytes, Body body, void* context,
         const MakeObserver& make_observer = {}, const std::vector<int64_t>& only_clusters = {},
         unsigned cluster_size = 1);

}  // namespace smem::cpu_emulator
