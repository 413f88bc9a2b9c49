// The pipeline of one block: which stage is empty, loading, full, or being read by wgmma. The
// kernel does not say what a stage is: it is the memory of the boxes whose bytes complete on one
// mbarrier.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace smem::cpu_emulator::trace {

enum class StageState : uint8_t { empty, loading, full, reading };

/// Stages are numbered as they are first loaded. A step is one event of the pipeline.
struct StageChange {
  uint32_t step, stage;
  StageState state;
};

class Pipeline {
 public:
  // Bytes count from the begin of the block's shared window.

  void box_load_begins(uint32_t barrier, uint32_t begin, uint32_t end);
  void phase_completes(uint32_t barrier);
  void wgmma_read_begins(uint32_t begin, uint32_t end);
  void wgmma_read_ends(uint32_t begin, uint32_t end);

  /// By step. A stage is empty again when its last read has ended, which the next load tells.
  std::vector<StageChange> changes() &&;

 private:
  static constexpr size_t MOST_CHANGES = 1 << 14;  ///< later ones are not kept

  struct Stage {
    uint32_t number;
    uint32_t begin, end;
    StageState state = StageState::empty;
    uint32_t last_read_end = 0;
  };

  Stage* stage_with(uint32_t begin, uint32_t end);
  void change(Stage& stage, StageState state, uint32_t step);

  uint32_t step_ = 0;
  std::map<uint32_t, Stage> stages_;  ///< by the barrier on which their bytes complete
  std::vector<StageChange> changes_;
};

}  // namespace smem::cpu_emulator::trace
