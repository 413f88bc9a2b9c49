#include "cpu_emulator/trace/tracer.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "cpu_emulator/trace/access.h"

namespace smem::cpu_emulator::trace {

namespace {

constexpr uint16_t SHARED = 0xffff, NO_MEMORY = 0xfffe;

Tracer& tracer() { return static_cast<Tracer&>(*current_thread->observer); }

std::string two_threads(unsigned one, unsigned other) {
  if (other == Moment::NOBODY || other == one) return std::to_string(one);
  return std::to_string(one) + " and " + std::to_string(other);
}

}  // namespace

bool may_load(const void* address, size_t bytes, Site site) {
  return tracer().access(Action::load, address, bytes, site);
}
bool may_store(const void* address, size_t bytes, Site site) {
  return tracer().access(Action::store, address, bytes, site);
}
void note_shared(const void* begin, size_t bytes, size_t element_bytes) {
  tracer().note_shared(begin, bytes, element_bytes);
}
void expect_inside(int64_t row, int64_t rows, int64_t col, int64_t cols, Site site) {
  if (row >= 0 && row < rows && col >= 0 && col < cols) return;
  tracer().outside_view("element (" + std::to_string(row) + ", " + std::to_string(col) +
                            ") of a view of " + std::to_string(rows) + "x" + std::to_string(cols),
                        site);
}
void copy_run(void* shared, const void* global, int bytes, int bytes_read, Site site) {
  tracer().copy(shared, global, bytes, bytes_read, site);
}
Arithmetic& arithmetic() { return tracer().arithmetic(); }

void Tracer::block_begins(dim3 block_index, uint64_t block_number, unsigned threads,
                          SharedRun dynamic_shared) {
  block_index_ = block_index;
  block_number_ = block_number;
  threads_ = threads;
  dynamic_shared_ = dynamic_shared.to;
  order_.begin_block(threads);
  shared_.begin_block();
  const unsigned warps = (threads + WARP_SIZE - 1) / WARP_SIZE;
  warps_.resize(warps);
  meetings_.assign(warps * WARP_SIZE, {{}, 0});
  running_.assign(warps, WARP_SIZE);
  if (threads % WARP_SIZE) running_.back() = threads % WARP_SIZE;
  barrier_sites_.clear();
}

void Tracer::block_ends() {
  for (unsigned warp = 0; warp < warps_.size(); ++warp) flush(warp);
}

void Tracer::thread_ends(unsigned thread) {
  if (--running_[thread / WARP_SIZE] == 0) flush(thread / WARP_SIZE);
}

void Tracer::thread_at_barrier(unsigned thread, Site site) {
  log(thread, {site, current_thread->iteration, 0, NOWHERE, NO_MEMORY, Action::barrier, 0});
  barrier_sites_.push_back(site);
}

void Tracer::barrier_opens(unsigned arrived, unsigned threads) {
  const Site first = barrier_sites_.front();
  if (arrived < threads) {
    fault("barrier not reached by all",
          std::to_string(arrived) + " of " + std::to_string(threads) +
              " threads wait, the others have ended",
          std::to_string(arrived) + " of " + std::to_string(threads), first);
  }
  for (const Site& site : barrier_sites_) {
    if (site.at.line() == first.at.line() && site.at.column() == first.at.column()) continue;
    fault("different barriers",
          "some threads wait at " + first.text() + ", others at " + site.text(),
          std::to_string(arrived) + " of " + std::to_string(threads), first);
    break;
  }
  barrier_sites_.clear();
  for (unsigned warp = 0; warp < warps_.size(); ++warp) flush(warp);
  order_.pass_barrier();
}

void Tracer::lane_at_warp_sync(unsigned thread, WarpSync kind, int bytes, unsigned mask,
                               Site site) {
  const Action action = kind == WarpSync::shuffle ? Action::shuffle : Action::warp_barrier;
  log(thread, {site, current_thread->iteration, 0, NOWHERE, NO_MEMORY, action,
               static_cast<uint8_t>(bytes)});
  const unsigned self = 1u << thread % WARP_SIZE;
  if (!(mask & self)) {
    fault("lane outside its mask", "the mask does not name the lane that calls",
          std::to_string(thread), site);
  }
  Meeting* const warp = &meetings_[thread / WARP_SIZE * WARP_SIZE];
  for (unsigned l = 0; l < WARP_SIZE; ++l) {
    // Lanes that do not name each other need not converge: half warps may diverge.
    if (!(warp[l].mask & self) || !(mask >> l & 1) || warp[l].mask == mask) continue;
    fault("different masks", "lanes that meet here give different masks", std::to_string(thread),
          site);
    break;
  }
  meetings_[thread] = {site, mask};
}

void Tracer::warp_sync_opens(unsigned warp, WarpSync kind, unsigned passed, unsigned alive) {
  bool reported = false;
  for (unsigned l = 0; l < WARP_SIZE; ++l) {
    if (!(passed >> l & 1)) continue;
    Meeting& meeting = meetings_[warp * WARP_SIZE + l];
    const unsigned mask = std::exchange(meeting.mask, 0), absent = mask & ~alive;
    // A lane outside its own mask is already a fault, and may arrive after all the others.
    if (reported || absent == 0 || !(mask >> l & 1)) continue;
    reported = true;
    fault("absent lanes",
          "the mask names " + std::to_string(std::popcount(absent)) + " lanes that have ended",
          "warp " + std::to_string(warp), meeting.site);
  }
  if (kind == WarpSync::barrier) order_.pass_warp_barrier(warp, passed);
  // Not if some lanes have ended: they may have executed lines that these lanes also execute.
  if (passed == lanes_of(warp)) flush(warp);
}

unsigned Tracer::lanes_of(unsigned warp) const {
  const unsigned lanes = threads_ - warp * WARP_SIZE;
  return lanes >= WARP_SIZE ? ~0u : (1u << lanes) - 1;
}

void Tracer::shuffle_without_source(unsigned thread, unsigned source, Site site) {
  fault("absent lanes", "lane " + std::to_string(source) + " gives no value",
        std::to_string(thread), site);
}

void Tracer::copy_lands(unsigned thread, const Copy& copy) {
  const auto bytes = static_cast<size_t>(copy.bytes);
  shared_.land_copy(shared_.find(copy.to, bytes), bytes, thread);
}

void Tracer::deadlock(const char* text, Site site) {
  fault("deadlock", text, std::to_string(current_thread->linear), site);
}

void Tracer::outside(const std::string& detail, Site site) {
  fault("out of bounds", detail, std::to_string(current_thread->linear), site);
}

void Tracer::outside_view(const std::string& detail, Site site) {
  outside(detail, site);
  reported_outside_ = {current_thread->linear, site.at.line()};
}

/// The offset of an address in its tile or its tensor's allocation.
uint64_t Tracer::place_of(const void* address) const {
  const auto place = shared_.find(address, 1);
  if (place.region >= 0) return place.offset;
  const auto at = reinterpret_cast<uintptr_t>(address);
  const auto buffer = find_buffer(at, 1);
  return buffer < recorder_.buffers().size() ? recorder_.buffers()[buffer].place(at) : at;
}

size_t Tracer::find_buffer(uintptr_t address, size_t bytes) const {
  const auto& buffers = recorder_.buffers();
  for (size_t i = buffers.size(); i-- > 0;) {
    if (buffers[i].holds(address, bytes)) return i;
  }
  return buffers.size();
}

bool Tracer::access(Action action, const void* address, size_t bytes, size_t used,
                    const void* partner, Site site) {
  const auto reported = std::exchange(reported_outside_, {Moment::NOBODY, 0});
  const auto at = reinterpret_cast<uintptr_t>(address);
  if (at % std::min<size_t>(bytes, 16) != 0) {
    fault("misaligned",
          "an access of " + std::to_string(bytes) + " bytes at an address that they do not divide",
          std::to_string(current_thread->linear), site);
  }
  const uint64_t other_end = partner ? place_of(partner) : NOWHERE;
  const auto event = [&](uint64_t where, uint16_t memory) {
    log(current_thread->linear, {site, current_thread->iteration, where, other_end, memory, action,
                                 static_cast<uint8_t>(bytes)});
  };
  const auto place = shared_.find(address, used);
  if (place.region >= 0) {
    event(place.offset, SHARED);
    return check_shared(action, place, bytes, site);
  }
  if (const size_t i = find_buffer(at, used); i < recorder_.buffers().size()) {
    event(recorder_.buffers()[i].place(at), static_cast<uint16_t>(i));
    return true;
  }
  if (reported != std::pair{current_thread->linear, site.at.line()}) {
    outside("an address in no tensor and no tile", site);
  }
  return false;
}

bool Tracer::check_shared(Action action, SharedMemory::Place place, size_t bytes, Site site) {
  const unsigned self = current_thread->linear;
  const auto verdict = action == Action::load      ? shared_.load(place, bytes, self, site)
                       : action == Action::copy_to ? shared_.start_copy(place, bytes, self, site)
                                                   : shared_.store(place, bytes, self, site);
  if (*verdict.kind) fault(verdict.kind, verdict.detail, two_threads(self, verdict.other), site);
  return true;
}

void Tracer::copy(void* shared, const void* global, int bytes, int bytes_read, Site site) {
  const auto width = static_cast<size_t>(bytes), used = static_cast<size_t>(bytes_read);
  if (used > 0 && !access(Action::copy_from, global, width, used, shared, site)) return;
  const bool through_cache = bytes < 16;
  const void* const source = used > 0 ? global : through_cache ? nullptr : shared;
  if (access(Action::copy_to, shared, width, width, source, site)) {
    cpu_emulator::cp_async({shared, bytes}, global, bytes_read);
  }
}

void Tracer::log(unsigned thread, const Event& event) {
  warps_[thread / WARP_SIZE].add(thread % WARP_SIZE, event);
}

void Tracer::flush(unsigned warp) {
  warps_[warp].flush([this](const Event& event, const Request& request, bool ambiguous) {
    account(event, request, ambiguous);
  });
}

size_t Tracer::HashKey::operator()(const Key& key) const {
  const auto& [site, action, memory, bytes] = key;
  return site ^ static_cast<size_t>(action) << 56 ^ size_t { memory } << 40 ^
         size_t { bytes } << 32;
}

void Tracer::account(const Event& event, const Request& request, bool ambiguous) {
  const Key key{std::bit_cast<uintptr_t>(event.site), event.action, event.memory, event.bytes};
  auto [found, is_new] = tallies_.try_emplace(key);
  Row& row = found->second.row;
  if (is_new) {
    const auto& at = event.site.at;
    row.file = at.file_name();
    row.function = at.function_name();
    row.line = at.line();
    row.column = at.column();
    row.action = event.action;
    row.bytes_a_lane = event.bytes;
    row.memory = event.memory == NO_MEMORY ? ""
                 : event.memory == SHARED  ? "shared"
                                           : recorder_.buffers()[event.memory].name;
    row.example.fill(INACTIVE);
  }
  row.requests += 1;
  row.lanes += static_cast<uint64_t>(std::popcount(request.mask));
  row.ambiguous |= ambiguous;
  if (event.memory != NO_MEMORY) {
    row.distinct_bytes += static_cast<uint64_t>(distinct_bytes(request));
  }
  uint64_t cost = 0, base = 0;
  if (event.memory == SHARED) {
    const Passes served = event.action == Action::copy_to
                              ? copy_passes(request)
                              : passes(request, event.action == Action::load);
    row.wavefronts += static_cast<uint64_t>(served.wavefronts);
    row.conflicts += static_cast<uint64_t>(served.wavefronts - served.least);
    cost = static_cast<uint64_t>(served.wavefronts);
    if (event.action == Action::load) found->second.merged.add(request);
  } else if (event.memory != NO_MEMORY) {
    const bool copies = event.action == Action::copy_from;
    cost = static_cast<uint64_t>(copies ? copy_sectors(request) : sectors(request));
    row.sectors += cost;
    base = recorder_.buffers()[event.memory].offset;
  }
  if (cost > row.worst) {
    row.worst = cost;
    row.example_block = block_number_;
    for (unsigned l = 0; l < WARP_SIZE; ++l) {
      const bool active = request.mask >> l & 1;
      row.example[l] = active ? static_cast<int64_t>(request.address[l] - base) : INACTIVE;
    }
  }
}

void Tracer::fault(const std::string& kind, const std::string& detail, const std::string& threads,
                   Site site) {
  auto [found, is_new] = faults_.try_emplace({kind, site.text()});
  if (!is_new) {
    ++found->second.count;
    return;
  }
  found->second = {kind,           site.at.file_name(),
                   site.at.line(), {block_index_.x, block_index_.y, block_index_.z},
                   threads,        detail};
}

Launch Tracer::finish() {
  Launch launch{};
  launch.static_shared_bytes = shared_.static_bytes(dynamic_shared_);
  launch.arithmetic = arithmetic_;
  for (auto& [key, tally] : tallies_) {
    Row& row = tally.row;
    const bool merges =
        row.memory == "shared" && row.action == Action::load && tally.merged.possible();
    row.merged_requests = merges ? tally.merged.requests() : row.requests;
    row.merged_wavefronts = merges ? tally.merged.wavefronts() : row.wavefronts;
    row.merged_conflicts = merges ? tally.merged.conflicts() : row.conflicts;
    launch.rows.push_back(std::move(row));
  }
  for (auto& [place, fault] : faults_) launch.faults.push_back(std::move(fault));
  return launch;
}

}  // namespace smem::cpu_emulator::trace
