// One block of cooperating fibers, run to its end on one operating-system thread.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "host_run/fiber.h"
#include "host_run/host_run.h"

namespace smem::host_run {

class Block {
 public:
  Block(dim3 threads, size_t dynamic_shared_bytes, Body body, void* context);

  void run(int64_t block_index);

  void sync_threads();
  void sync_warp(unsigned mask);
  uint64_t shuffle_bits(unsigned mask, uint64_t bits, unsigned source);
  void* dynamic_shared() { return dynamic_shared_.data(); }

 private:
  struct Fiber {
    Thread thread;
    Context context;
    unsigned next;       ///< the ring of fibers that have not ended
    uint64_t warp_turn;  ///< how many warp barriers this lane has passed
  };
  struct Warp {
    unsigned alive, arrived;
    uint64_t value[WARP_SIZE];
  };

  static void enter_fiber();
  void run_body();
  void end_fiber();
  void switch_to(unsigned fiber);
  /// Lets the others run until `passed()`; throws where none of them can go on either.
  template <typename Condition>
  void wait_until(Condition passed, const char* where);
  void release_if_all_arrived();
  void release_warp(unsigned warp, unsigned mask);

  struct alignas(128) Line {
    unsigned char bytes[128];
  };

  Body body_;
  void* context_;
  std::vector<Fiber> fibers_;
  std::vector<Warp> warps_;
  std::vector<unsigned> previous_;
  std::unique_ptr<unsigned char[]> stacks_;
  std::vector<Line> dynamic_shared_;
  Context caller_{};
  unsigned alive_ = 0, arrived_ = 0;
  uint64_t turn_ = 0;      ///< how many block barriers have been passed
  uint64_t progress_ = 0;  ///< rises whenever any fiber moves on
  std::exception_ptr error_;
};

}  // namespace smem::host_run
