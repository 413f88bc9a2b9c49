// One block of cooperating fibers, run to its end on one operating-system thread.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "cpu_emulator/cpu_emulator.h"
#include "cpu_emulator/fiber.h"
#include "cpu_emulator/observer.h"

namespace smem::cpu_emulator {

class Block {
 public:
  Block(dim3 grid, dim3 threads, size_t dynamic_shared_bytes, Body body, void* context,
        Observer* observer);

  void run(int64_t block_index);

  void sync_threads(Site site);
  void sync_warp(unsigned mask, WarpSync kind, int bytes, Site site);
  uint64_t shuffle_bits(unsigned mask, uint64_t bits, int bytes, unsigned source, Site site);
  SharedRun dynamic_shared() {
    return {dynamic_shared_.data(), static_cast<int>(dynamic_shared_bytes_)};
  }

  void cp_async(SharedRun shared, const void* global, int bytes_read);
  void cp_async_commit();
  void cp_async_wait(size_t groups_left);

 private:
  /// The call in which a fiber waits while others run.
  struct Wait {
    const char* at = nullptr;  ///< for example "__syncthreads"; null if it can continue
    Site site;
  };
  struct Fiber {
    Thread thread;
    Context context;
    unsigned next;        ///< the ring of fibers that have not ended
    uint64_t warp_syncs;  ///< how many warp barriers this lane has passed
    bool ended;
    Wait wait;
    std::vector<std::vector<Copy>> groups;  ///< cp.async groups in flight; the last one is open
  };
  struct Warp {
    unsigned alive, arrived;
    uint64_t value[WARP_SIZE];
  };
  struct alignas(128) Line {
    unsigned char bytes[128];
  };

  static void enter_fiber();
  void run_body();
  void end_fiber();
  void switch_to(unsigned target);
  Fiber& running() { return fibers_[current_thread->linear]; }
  /// Runs the other fibers until `passed()`; throws Deadlock if none of them can continue.
  template <typename Condition>
  void wait_until(Condition passed, const char* where, Site site);
  void report_deadlock(Site site);
  void open_barrier_if_all_arrived();
  void open_warp_sync(unsigned warp, unsigned passed);

  Body body_;
  void* context_;
  dim3 grid_;
  Observer* observer_;
  std::vector<Fiber> fibers_;
  std::vector<Warp> warps_;
  std::vector<unsigned> previous_;
  std::unique_ptr<unsigned char[]> stacks_;
  size_t dynamic_shared_bytes_;
  std::vector<Line> dynamic_shared_;
  Context caller_{};
  unsigned alive_ = 0, arrived_ = 0;
  uint64_t barrier_count_ = 0;  ///< how many block barriers have been passed
  uint64_t progress_ = 0;       ///< rises whenever any fiber moves on
  std::exception_ptr error_;
};

}  // namespace smem::cpu_emulator
