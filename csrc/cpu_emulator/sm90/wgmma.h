// wgmma: the warpgroups of a block multiply tiles in shared memory, asynchronously.
//
// Each warp of the warpgroup computes its 16 rows, at a moment between the commit of the group by
// all 128 threads and the end of the warp's wait. Until then the registers of the accumulators hold
// a NaN, and the emulator keeps their values.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "cpu_emulator/sm90/shared_window.h"
#include "cpu_emulator/sm90/tensor_core.h"

namespace smem::cpu_emulator::sm90 {

struct WgmmaShape {
  Format format;
  int n;
  bool a_is_mn_major, b_is_mn_major;

  int accumulators() const { return n / 2; }  ///< per thread
  bool operator==(const WgmmaShape&) const = default;
};

class Warpgroup {
 public:
  static constexpr unsigned THREADS = 128, WARPS = 4;

  explicit Warpgroup(Block& block) : block_(block) {}

  // All of these are called by each thread.

  void fence() { thread().fenced = true; }
  /// `a_registers`: the thread's fragment of A, or null if A is in shared memory.
  void issue(const WgmmaShape& shape, float* accum, const uint32_t* a_registers, uint64_t a,
             uint64_t b, bool accumulate, Site site);
  void commit(Site site);
  void wait(size_t groups_left, Site site);

 private:
  struct Instruction {
    WgmmaShape shape;
    uint64_t a, b;  ///< shared memory matrix descriptors
    bool accumulate;
    Site site;
    std::vector<std::pair<SharedWindow::Id, ByteRange>> reads{};
    unsigned warps_finished = 0;  ///< warps that have waited for it
    std::array<float*, THREADS> accum{};
    std::array<const uint32_t*, THREADS> a_registers{};
  };
  /// Accumulators whose registers wgmma writes.
  struct Shadow {
    float* registers;
    std::vector<float> values;
    uint64_t last_instruction;
  };
  struct ThreadState {
    uint64_t issued = 0, committed_groups = 0, waits = 0;
    bool fenced = false, reads_a_registers = false;
    std::vector<Shadow> shadows;
  };
  struct Group {
    uint64_t end;  ///< of its instructions
    unsigned threads = 0;
  };

  ThreadState& thread() { return threads_[current_thread->linear % THREADS]; }
  Instruction& instruction(uint64_t index) { return instructions_[index - first_]; }
  Shadow& shadow(ThreadState& thread, float* registers, const Instruction& instruction);
  void begin_reads(Instruction& instruction, bool a_in_registers);
  void observe(const Instruction& instruction, bool a_in_registers);
  /// The instructions before `end`, as far as the warp has not executed them.
  void execute(unsigned warp, uint64_t end);
  void execute(unsigned warp, const Instruction& own);
  void finish(unsigned warp, uint64_t end);
  void give_back_registers(uint64_t end, Site site);

  Block& block_;
  std::deque<Instruction> instructions_;
  uint64_t first_ = 0;  ///< the number of the first instruction that is kept
  std::vector<Group> groups_;
  std::array<ThreadState, THREADS> threads_;
  uint64_t executed_[WARPS] = {}, finished_[WARPS] = {};  ///< instructions, by warp
  uint64_t waits_[WARPS] = {};                            ///< calls of `wait`, by all lanes
};

/// The warpgroups of a block that use wgmma.
class Warpgroups {
 public:
  explicit Warpgroups(Block& block) : block_(block) {}
  /// That of the running thread.
  Warpgroup& current();

 private:
  Block& block_;
  std::map<unsigned, Warpgroup> warpgroups_;
};

}  // namespace smem::cpu_emulator::sm90
