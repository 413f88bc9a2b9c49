// The blocks of a cluster, whose fibers take turns on one operating-system thread. A grid without
// clusters consists of clusters of one block. Each block has its own dynamic shared memory; arrays
// declared __shared__ are thread_local (cuda/cuda_language.h), so blocks of a cluster must not have
// any.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cpu_emulator/block.h"
#include "cpu_emulator/sm90/async_queue.h"

namespace smem::cpu_emulator {

class Cluster {
 public:
  /// `size` blocks, which are neighbours along x.
  Cluster(unsigned size, dim3 grid, dim3 threads, size_t dynamic_shared_bytes, Body body,
          void* context, const MakeObserver& make_observer);

  /// Runs the blocks `index * size` and following. Throws what a thread threw, and Deadlock.
  void run(int64_t index);

  unsigned size() const { return static_cast<unsigned>(blocks_.size()); }
  Block& block(unsigned rank) { return *blocks_[rank]; }
  unsigned rank_of(const Block& block) const;
  sm90::AsyncQueue& async() { return async_; }

  /// barrier.cluster: all threads of all blocks that have not ended arrive.
  void arrive();
  uint64_t arrivals_completed() const { return barrier_count_; }
  /// A block waits for no thread that has ended.
  void open_barrier_if_all_arrived();

  /// All fibers wait: the next asynchronous operation happens. False if there is none.
  bool go_on();
  std::string describe_deadlock() const;

 private:
  Ring ring_;
  std::vector<std::unique_ptr<Block>> blocks_;
  sm90::AsyncQueue async_;
  unsigned arrived_ = 0;
  uint64_t barrier_count_ = 0;
};

}  // namespace smem::cpu_emulator
