// When asynchronous operations happen. The hardware may execute one at any moment between its
// issue and the end of the wait for it, and a correct kernel gives the same result at all of them.
// So the moment is chosen against the kernel:
//
//   early    at the issue
//   late     when no thread can go on without it, the newest first
//   random   after a random number of calls to the emulator; the threads' turns are random, too
//
// Threads are delayed in the same way where others depend on them: before they initialize the
// block's barriers, and after they arrive on one, before what they do next.
//
// The environment variable SMEM_ASYNC_TIMING is `early`, `late`, or the seed of `random`. The
// default is seed 0, so that a run can be repeated.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace smem::cpu_emulator::sm90 {

class AsyncQueue {
 public:
  using Operation = std::function<void()>;

  AsyncQueue();

  /// Forgets all operations. Each cluster has random numbers of its own, so that they do not depend
  /// on which cluster runs before.
  void begin(uint64_t cluster);
  void issue(Operation operation);
  /// A thread calls the emulator; operations that are due happen. Returns whether the thread should
  /// let others run.
  bool tick();
  /// How often the calling thread should let others run where they may depend on it.
  int turns_before_init();
  int turns_after_arrival();
  /// The next operation happens, due or not. False if there is none.
  bool advance();
  void drain();

 private:
  enum class Timing { early, late, random };
  struct Pending {
    uint64_t due;
    Operation operation;
  };

  uint64_t random();
  uint64_t delay();
  void happen(size_t index);

  Timing timing_ = Timing::random;
  uint64_t seed_ = 0, state_ = 0, now_ = 0, issued_ = 0;
  uint64_t next_due_ = UINT64_MAX;
  std::vector<Pending> pending_;
};

}  // namespace smem::cpu_emulator::sm90
