#include "cpu_emulator/trace/pipeline.h"

#include <algorithm>
#include <utility>

namespace smem::cpu_emulator::trace {

void Pipeline::box_load_begins(uint32_t barrier, uint32_t begin, uint32_t end) {
  ++step_;
  const auto number = static_cast<uint32_t>(stages_.size());
  Stage& stage = stages_.try_emplace(barrier, Stage{number, begin, end}).first->second;
  stage.begin = std::min(stage.begin, begin);
  stage.end = std::max(stage.end, end);
  if (stage.state == StageState::loading) return;
  if (stage.state == StageState::reading) change(stage, StageState::empty, stage.last_read_end);
  change(stage, StageState::loading, step_);
}

void Pipeline::phase_completes(uint32_t barrier) {
  const auto found = stages_.find(barrier);
  if (found == stages_.end()) return;
  change(found->second, StageState::full, ++step_);
}

void Pipeline::wgmma_read_begins(uint32_t begin, uint32_t end) {
  Stage* const stage = stage_with(begin, end);
  if (!stage || stage->state != StageState::full) return;
  change(*stage, StageState::reading, ++step_);
}

void Pipeline::wgmma_read_ends(uint32_t begin, uint32_t end) {
  if (Stage* const stage = stage_with(begin, end)) stage->last_read_end = ++step_;
}

std::vector<StageChange> Pipeline::changes() && {
  for (auto& [barrier, stage] : stages_) {
    if (stage.state == StageState::reading) change(stage, StageState::empty, stage.last_read_end);
  }
  std::stable_sort(changes_.begin(), changes_.end(),
                   [](const StageChange& a, const StageChange& b) { return a.step < b.step; });
  return std::move(changes_);
}

Pipeline::Stage* Pipeline::stage_with(uint32_t begin, uint32_t end) {
  for (auto& [barrier, stage] : stages_) {
    if (stage.begin < end && begin < stage.end) return &stage;
  }
  return nullptr;
}

void Pipeline::change(Stage& stage, StageState state, uint32_t step) {
  stage.state = state;
  if (changes_.size() < MOST_CHANGES) changes_.push_back({step, stage.number, state});
}

}  // namespace smem::cpu_emulator::trace
