// One block of cooperating fibers. cluster.h runs the blocks of a cluster together.
#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cpu_emulator/async_barrier.h"
#include "cpu_emulator/cpu_emulator.h"
#include "cpu_emulator/fiber.h"
#include "cpu_emulator/observer.h"
#include "cpu_emulator/stack_memory.h"

namespace smem::cpu_emulator {

class Cluster;
namespace sm90 {
class BlockState;
}

/// What all fibers that take turns share.
struct Ring {
  Context caller{};
  unsigned alive = 0;        ///< fibers that have not ended
  uint64_t progress = 0;     ///< rises whenever any fiber moves on
  Thread* paused = nullptr;  ///< it goes on unless the launch is interrupted
  std::exception_ptr error;
};

class Block {
 public:
  Block(Cluster& cluster, Ring& ring, Body body, void* context, dim3 grid, dim3 threads,
        size_t dynamic_shared_bytes, std::unique_ptr<Observer> observer);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  /// Makes the block's fibers ready, in a ring of their own.
  void begin(int64_t block_index);
  void end();
  /// Joins the rings of two blocks.
  void take_turns_with(Block& other);
  /// Runs the fibers of the ring, from this block's first one, until all have ended.
  void run_ring();

  Cluster& cluster() { return cluster_; }
  Ring& ring() { return ring_; }
  Observer* observer() { return observer_.get(); }
  unsigned index() const { return fibers_[0].thread.block_index.x; }
  unsigned threads() const { return static_cast<unsigned>(fibers_.size()); }
  /// What sm_90 adds to a block; made when the kernel uses it first.
  sm90::BlockState& sm90();
  sm90::BlockState* sm90_if_used() { return sm90_.get(); }

  void sync_threads(Site site);
  void sync_warp(unsigned mask, WarpSync kind, int bytes, Site site);
  /// Every lane in `mask` gives its bits and receives those of `source`, or its own if `source` is
  /// not in the mask.
  uint64_t shuffle_bits(unsigned mask, uint64_t bits, int bytes, unsigned source, Site site);
  SharedRun dynamic_shared() {
    return {dynamic_shared_[0].bytes + DYNAMIC_SHARED_OFFSET,
            static_cast<int>(dynamic_shared_bytes_)};
  }

  /// cp.async: reads the first `bytes_read` bytes (the others become zero) and writes them at the
  /// wait for the copy's group.
  void cp_async(SharedRun shared, const void* global, int bytes_read);
  void cp_async_commit();
  void cp_async_wait(size_t groups_left, Site site);
  /// Copies that were bound to a barrier land, and none are left.
  void land(std::vector<Copy>& copies);
  /// The running thread's copies that belong to no group yet.
  std::vector<Copy>& open_copies() { return running().groups.back(); }
  /// How many groups of the running thread's copies are in flight that an mbarrier waits for.
  int& bound_groups() { return running().bound_groups; }

  AsyncBarriers& async_barriers() { return async_barriers_; }

  /// PTX barrier.cluster.
  void arrive_in_cluster();
  void wait_for_cluster(Site site);

  /// A barrier that combines the threads' values.
  int sync_threads_reduce(int value, smem_reduction reduction, Site site);
  /// Every lane in `mask` gives its bits and receives all; returns the lanes that took part.
  unsigned exchange(unsigned mask, uint64_t bits, uint64_t* all, Site site);
  /// All lanes of the warp meet and give each other a pointer, unseen by the observer: a part of an
  /// instruction that all lanes execute together. Returns the lanes that have not ended.
  unsigned meet(void* given, void* (&all)[WARP_SIZE], Site site);

  /// Waits until all lanes of the warp have come to a stop; of those that stopped here, the ones at
  /// the lowest address go on together, or those that have waited for long. Returns them.
  unsigned converge(Site site);
  /// Runs the other fibers until `passed()`; throws Deadlock if none of them can continue.
  template <typename Condition>
  void wait_until(Condition passed, const char* where, Site site);
  /// Looks for an interruption of the launch, on the caller's stack: Python measures its own there.
  void pause();
  /// Lets every other thread run once.
  void yield();
  /// Ends the running thread, whose stack is abandoned.
  [[noreturn]] void abandon();
  unsigned alive() const { return alive_; }
  /// Adds where threads wait, and how many there: "128 at __syncthreads".
  void count_waiting(std::map<std::string, int>& waiting) const;
  /// Whether the address is in some thread's stack.
  bool in_stacks(const void* address) const { return stacks_.holds(address); }

 private:
  // Kernels keep up to 64 accumulators and their fragments on the stack, and a first call through
  // the dynamic linker takes about 4 KiB. The 192 bytes stagger the stacks over the cache sets.
  // A user's kernel may keep large arrays there: pages that are not touched cost nothing.
  static constexpr size_t STACK_BYTES = 256 * 1024 + 192;

  /// The call in which a fiber waits while others run.
  struct Wait {
    const char* at = nullptr;  ///< for example "__syncthreads"; null if it can continue
    Site site;
  };
  struct Fiber {
    Thread thread;
    Context context;
    Fiber *next, *previous;    ///< the ring of fibers that have not ended
    uint64_t cluster_barrier;  ///< which of the cluster's it arrived on last
    uint64_t warp_syncs;       ///< how many warp barriers this lane has passed
    unsigned passed_over;      ///< how often others went on since it stopped in `converge`
    unsigned passed_at_once;   ///< how often it went on there before any other thread ran
    bool ended;
    Wait wait;
    std::vector<std::vector<Copy>> groups;  ///< cp.async groups in flight; the last one is open
    int bound_groups = 0;                   ///< in flight that an mbarrier waits for
  };
  struct Warp {
    unsigned alive, arrived;
    unsigned stopped;   ///< lanes in `converge`
    unsigned going;     ///< those of them that may go on and have not yet
    unsigned together;  ///< all that may go on since the last stop
    uint64_t value[WARP_SIZE];
  };
  struct Reduced {
    int sum = 0, all = 1, any = 0;
  };
  /// Kernels for sm_90 must align their stages to such lines themselves, so dynamic shared memory
  /// begins within one, at the same place in all blocks.
  struct alignas(1024) Line {
    unsigned char bytes[1024];
  };
  static constexpr size_t DYNAMIC_SHARED_OFFSET = 128;

  unsigned char* stack_of(unsigned fiber) const { return stacks_.get() + fiber * STACK_BYTES; }
  static void enter_fiber();
  static void link(Fiber& from, Fiber& to) {
    from.next = &to;
    to.previous = &from;
  }
  /// The lanes that go on when the whole warp has stopped; 0 if it has not.
  unsigned lanes_to_go_on(unsigned warp);
  void run_body();
  void end_fiber();
  void switch_to(Fiber& target);
  Fiber& running() { return fibers_[current_thread->linear]; }
  /// Every lane in `mask` gives its bits; when all have, returns read(warp); when all have read,
  /// they go on.
  template <typename Read>
  auto give_and_read(unsigned mask, uint64_t bits, int bytes, WarpSync kind, Site site,
                     const Read& read);
  /// Every other fiber has run once, and none made progress. Lets something asynchronous happen;
  /// throws Deadlock if nothing is left that could.
  void go_on_or_report(Site site);
  void open_barrier_if_all_arrived();
  unsigned threads_at_barriers() const;
  void open_warp_sync(unsigned warp, unsigned passed);

  AsyncBarriers async_barriers_{*this};
  std::unique_ptr<sm90::BlockState> sm90_;
  Cluster& cluster_;
  Ring& ring_;
  Body body_;
  void* context_;
  dim3 grid_;
  std::unique_ptr<Observer> observer_;
  std::vector<Fiber> fibers_;
  std::vector<Warp> warps_;
  StackMemory stacks_;
  size_t dynamic_shared_bytes_;
  std::vector<Line> dynamic_shared_;
  unsigned alive_ = 0, arrived_ = 0;
  Reduced reduced_[2];          ///< of this barrier and of the one before, by turns
  uint64_t barrier_count_ = 0;  ///< how many block barriers have been passed
};

template <typename Condition>
void Block::wait_until(Condition passed, const char* where, Site site) {
  Fiber& self = running();
  self.wait = {where, site};
  while (!passed()) {
    const uint64_t before = ring_.progress;
    switch_to(*self.next);
    if (ring_.progress == before && !passed()) go_on_or_report(site);
  }
  self.wait = {};
}

}  // namespace smem::cpu_emulator
