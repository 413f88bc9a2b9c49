#include "cpu_emulator/cluster.h"

#include <map>

#include "cpu_emulator/sm90/block_state.h"

namespace smem::cpu_emulator {

Cluster::Cluster(unsigned size, dim3 grid, dim3 threads, size_t dynamic_shared_bytes, Body body,
                 void* context, const MakeObserver& make_observer) {
  for (unsigned rank = 0; rank < size; ++rank) {
    blocks_.push_back(std::make_unique<Block>(*this, ring_, body, context, grid, threads,
                                              dynamic_shared_bytes,
                                              make_observer ? make_observer() : nullptr));
  }
}

void Cluster::run(int64_t index) {
  ring_ = {};
  arrived_ = 0;
  barrier_count_ = 0;
  async_.begin(static_cast<uint64_t>(index));
  for (unsigned rank = 0; rank < size(); ++rank) {
    blocks_[rank]->begin(index * size() + rank);
    if (rank > 0) blocks_[0]->take_turns_with(*blocks_[rank]);
  }
  blocks_[0]->run_ring();
  if (!ring_.error) {
    try {
      async_.drain();
      for (auto& block : blocks_) {
        if (auto* const state = block->sm90_if_used()) state->check_end();
      }
    } catch (...) {
      ring_.error = std::current_exception();
    }
  }
  for (auto& block : blocks_) block->end();
  if (ring_.error) std::rethrow_exception(ring_.error);
}

unsigned Cluster::rank_of(const Block& block) const {
  unsigned rank = 0;
  while (blocks_[rank].get() != &block) ++rank;
  return rank;
}

void Cluster::arrive() {
  ++arrived_;
  ++ring_.progress;
  open_barrier_if_all_arrived();
}

void Cluster::open_barrier_if_all_arrived() {
  if (arrived_ == 0 || arrived_ < ring_.alive) return;
  arrived_ = 0;
  ++barrier_count_;
  ++ring_.progress;
}

bool Cluster::go_on() {
  if (!async_.advance()) return false;
  ++ring_.progress;
  return true;
}

std::string Cluster::describe_deadlock() const {
  std::map<std::string, int> waiting;
  size_t threads = 0;
  std::string barriers;
  for (const auto& block : blocks_) {
    block->count_waiting(waiting);
    threads += block->threads();
    barriers += block->async_barriers().describe();
    if (auto* const state = block->sm90_if_used()) barriers += state->describe_barriers();
  }
  std::string text;
  for (const auto& [where, count] : waiting) {
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " at " + where;
  }
  const std::string last = std::to_string(current_thread->block_index.x);
  const std::string of =
      size() == 1 ? " threads of block " + last : " threads of the cluster with block " + last;
  return "deadlock: of " + std::to_string(threads) + of + " wait " + text + "; " +
         std::to_string(threads - ring_.alive) + " have ended" + barriers;
}

}  // namespace smem::cpu_emulator
