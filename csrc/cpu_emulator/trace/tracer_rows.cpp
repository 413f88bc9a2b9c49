// The rows of a tracer's report: what each line of the kernel does to each memory.
#include <algorithm>
#include <bit>
#include <utility>

#include "cpu_emulator/trace/cost.h"
#include "cpu_emulator/trace/tracer.h"

namespace smem::cpu_emulator::trace {

size_t Tracer::HashKey::operator()(const Key& key) const {
  const auto& [pc, action, memory, bytes] = key;
  return pc ^ static_cast<size_t>(action) << 56 ^ size_t { memory } << 40 ^ size_t { bytes } << 32;
}

Tracer::Tally& Tracer::tally_of(uint32_t pc, Action action, uint16_t memory, unsigned bytes) {
  auto [found, is_new] = tallies_.try_emplace({pc, action, memory, bytes});
  Row& row = found->second.row;
  if (is_new) {
    row.pc = recorder_.module().begin + pc;
    row.action = action;
    row.bytes_a_lane = static_cast<int>(bytes);
    row.memory = memory == NO_MEMORY ? ""
                 : is_shared(memory) ? "shared"
                                     : recorder_.buffers()[memory].name;
    if (is_shared(memory)) row.array = shared_.name(memory - SHARED);
    row.example.fill(INACTIVE);
  }
  return found->second;
}

void Tracer::bulk_access(const BulkAccess& access, Site site) {
  if (!recorder_.session().counts) return;
  const auto address = reinterpret_cast<uintptr_t>(access.address);
  const uint16_t memory = address == 0 ? NO_MEMORY : memory_.find(address, 1, site.pc).memory;
  Row& row = tally_of(static_cast<uint32_t>(site.pc - recorder_.module().begin), access.action,
                      memory, access.bytes_a_lane)
                 .row;
  row.requests += 1;
  row.lanes += access.lanes;
  row.distinct_bytes += access.bytes;
  row.sectors += access.sectors;
  row.wavefronts += access.wavefronts;
  row.conflicts += access.conflicts;
  row.tensor_flop += access.tensor_flop;
  row.tensor_cycles += access.tensor_cycles;
  row.worst = std::max({row.worst, access.sectors, access.wavefronts});
}

void Tracer::mbarrier_wait(bool is_first, bool is_complete, Site site) {
  if (!recorder_.session().counts) return;
  Row& row = tally_of(static_cast<uint32_t>(site.pc - recorder_.module().begin),
                      Action::mbarrier_wait, NO_MEMORY, 0)
                 .row;
  row.lanes += 1;
  row.requests += is_first;
  row.ready += is_first && is_complete;
}

Tracer::Cost Tracer::cost_of(const LaneEvent& event, const Request& request) const {
  Cost cost{.distinct_bytes = static_cast<uint64_t>(distinct_bytes(request))};
  if (is_shared(event.memory)) {
    const Passes served = event.action == Action::copy_to
                              ? copy_passes(request)
                              : passes(request, event.action == Action::load);
    cost.passes = static_cast<uint64_t>(served.wavefronts);
    cost.conflicts = static_cast<uint64_t>(served.wavefronts - served.least);
  } else if (recorder_.buffers()[event.memory].constant) {
    cost.passes = 1;
  } else {
    const bool copies = event.action == Action::copy_from;
    cost.passes = static_cast<uint64_t>(copies ? copy_sectors(request) : sectors(request));
  }
  return cost;
}

const Tracer::Cost& Tracer::cost_of_next(Tally& tally, const LaneEvent& event,
                                         const Request& request) const {
  // Lanes that move by whole sectors touch as many, and by whole words have as many conflicts.
  const uint64_t step = is_shared(event.memory) ? 4 : 32;
  if (!is_moved(request, tally.last, step)) {
    tally.cost = cost_of(event, request);
    tally.last.mask = request.mask;
    tally.last.bytes = request.bytes;
    std::copy(std::begin(request.address), std::end(request.address), tally.last.address);
  }
  return tally.cost;
}

void Tracer::account(unsigned warp, const LaneEvent& event, const Request& request) {
  Tally& tally = tally_of(event.pc, event.action, event.memory, event.bytes);
  Row& row = tally.row;
  row.requests += 1;
  row.lanes += static_cast<uint64_t>(std::popcount(request.mask));
  if (event.memory == NO_MEMORY) return;
  const bool copies = event.action == Action::copy_from || event.action == Action::copy_to;
  const Cost cost = copies ? cost_of(event, request) : cost_of_next(tally, event, request);
  row.distinct_bytes += cost.distinct_bytes;
  uint64_t base = 0;
  if (is_shared(event.memory)) {
    row.wavefronts += cost.passes;
    row.conflicts += cost.conflicts;
    if (event.action == Action::load) tally.merged.add(request, warp);
  } else if (const Buffer& buffer = recorder_.buffers()[event.memory]; !buffer.constant) {
    row.sectors += cost.passes;
    base = buffer.offset;
  }
  if (cost.passes > row.worst) {
    row.worst = cost.passes;
    row.example_block = block_number_;
    for (unsigned l = 0; l < WARP_SIZE; ++l) {
      const bool active = request.mask >> l & 1;
      row.example[l] = active ? static_cast<int64_t>(request.address[l] - base) : INACTIVE;
    }
  }
}

Launch Tracer::finish() {
  Launch launch{};
  launch.static_shared_bytes = shared_.static_bytes();
  launch.operations = operations_;
  for (auto& [key, tally] : tallies_) {
    Row& row = tally.row;
    const bool merges =
        row.memory == "shared" && row.action == Action::load && tally.merged.possible();
    row.merged_requests = merges ? tally.merged.requests() : row.requests;
    row.merged_wavefronts = merges ? tally.merged.wavefronts() : row.wavefronts;
    row.merged_conflicts = merges ? tally.merged.conflicts() : row.conflicts;
    launch.rows.push_back(std::move(row));
  }
  launch.pipeline = std::move(pipeline_).changes();
  for (auto& [place, fault] : faults_) launch.faults.push_back(std::move(fault));
  return launch;
}

}  // namespace smem::cpu_emulator::trace
