#include "cpu_emulator/trace/tracer.h"

#include <algorithm>
#include <cstring>

namespace smem::cpu_emulator::trace {

namespace {

std::string two_threads(unsigned one, unsigned other) {
  if (other == Moment::NOBODY || other == one) return std::to_string(one);
  return std::to_string(one) + " and " + std::to_string(other);
}

}  // namespace

Tracer::Tracer(Recorder& recorder)
    : recorder_(recorder),
      counts_(recorder.session().counts),
      code_(recorder.module().begin),
      running_thread_(&current_thread) {}

void Tracer::block_begins(dim3 block_index, uint64_t block_number, unsigned threads,
                          SharedRun dynamic_shared) {
  block_index_ = block_index;
  block_number_ = block_number;
  threads_ = threads;
  memory_.set_dynamic_shared(dynamic_shared);
  order_.begin_block(threads);
  shared_.begin_block();
  const unsigned warps = (threads + WARP_SIZE - 1) / WARP_SIZE;
  warps_.resize(warps);
  meetings_.assign(warps * WARP_SIZE, {{}, 0});
  running_.assign(warps, WARP_SIZE);
  if (threads % WARP_SIZE) running_.back() = threads % WARP_SIZE;
  ended_.assign(warps, 0);
  barrier_sites_.clear();
  rival_stores_.clear();
}

void Tracer::block_ends() {
  for (unsigned warp = 0; warp < running_.size(); ++warp) flush(warp);
}

void Tracer::thread_ends(unsigned thread) {
  judge_rival_stores();
  operations_ += running().operations;
  ended_[thread / WARP_SIZE] |= 1u << thread % WARP_SIZE;
  if (--running_[thread / WARP_SIZE] == 0) flush(thread / WARP_SIZE);
}

void Tracer::thread_at_barrier(unsigned /*thread*/, Site site) {
  judge_rival_stores();
  log_meeting(site, Action::barrier, 0);
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
    if (site == first) continue;
    fault("different barriers",
          "some threads wait at " + first.text() + ", others at " + site.text(),
          std::to_string(arrived) + " of " + std::to_string(threads), first);
    break;
  }
  barrier_sites_.clear();
  for (unsigned warp = 0; warp < running_.size(); ++warp) {
    warps_[warp].open_meeting(warps_[warp].lanes_that_wait());
    flush(warp);
  }
  order_.pass_barrier();
}

void Tracer::lane_at_warp_sync(unsigned thread, WarpSync kind, int bytes, unsigned mask,
                               Site site) {
  judge_rival_stores();
  const Action action = kind == WarpSync::shuffle ? Action::shuffle : Action::warp_barrier;
  log_meeting(site, action, static_cast<size_t>(bytes));
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

void Tracer::warp_sync_opens(unsigned warp, WarpSync kind, unsigned passed) {
  for (unsigned l = 0; l < WARP_SIZE; ++l) {
    if (passed >> l & 1) meetings_[warp * WARP_SIZE + l].mask = 0;
  }
  if (kind == WarpSync::barrier) order_.pass_warp_barrier(warp, passed);
  warps_[warp].open_meeting(passed);
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
  shared_.land_copy(memory_.find_shared(copy.to, bytes), bytes, thread);
}

void Tracer::barrier_used(const void* barrier, bool initialises, Site site) {
  judge_rival_stores();
  constexpr size_t BYTES = sizeof(uint64_t);
  const auto place = memory_.find_shared(barrier, BYTES);
  if (place.region < 0) return;
  const unsigned self = running().linear;
  // Threads that use it do not race with each other, but with the one that initialises it.
  const auto verdict = initialises ? shared_.store(place, BYTES, self, site)
                                   : shared_.load(place, BYTES, self, site);
  if (verdict) report(*verdict, site);
}

void Tracer::bound_copy_lands(const Copy& copy) {
  const auto bytes = static_cast<size_t>(copy.bytes);
  shared_.land_bound_copy(memory_.find_shared(copy.to, bytes), bytes);
}

void Tracer::async_copy_lands(const void* to, size_t bytes) {
  shared_.land_async_copy(memory_.find_shared(to, bytes), bytes);
}

void Tracer::deadlock(const char* text, Site site) {
  fault("deadlock", text, std::to_string(running().linear), site);
}

void Tracer::error(const char* kind, const std::string& detail, Site site) {
  const Thread* const thread = *running_thread_;
  fault(kind, detail, thread ? std::to_string(thread->linear) : "all", site);
}

LaneEvent Tracer::event_of(Site site, Action action, size_t bytes, uint16_t memory) const {
  return {.pc = static_cast<uint32_t>(site.pc - code_),
          .depth = static_cast<uint16_t>(running().depth),
          .memory = memory,
          .action = action,
          .bytes = static_cast<uint8_t>(bytes)};
}

void Tracer::log_meeting(Site site, Action action, size_t bytes) {
  if (!counts_) return;
  running_warp().add(running().linear % WARP_SIZE, event_of(site, action, bytes, NO_MEMORY), 0);
}

void Tracer::basic_block(Site site) {
  judge_rival_stores();
  const LaneEvent event = event_of(site, Action::pass, 0, NO_MEMORY);
  limit_events(running_warp().add_pass(running().linear % WARP_SIZE, event));
}

void Tracer::let_others_run() {
  Thread& thread = running();
  const unsigned warp = thread.linear / WARP_SIZE;
  drain(warp, lanes_of(warp) & ~ended_[warp] & ~warps_[warp].lanes_that_wait());
  thread.lets_others_run = true;
}

uint64_t Tracer::place_of(const void* address, uintptr_t key) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  const auto& range = memory_.find(at, 1, key);
  return range.memory == NO_MEMORY ? at : range.place(at);
}

bool Tracer::access(Action action, const void* address, size_t bytes, size_t used,
                    const void* partner, Site site, bool speculative) {
  judge_rival_stores();
  const auto at = reinterpret_cast<uintptr_t>(address);
  if ((at & (std::min<size_t>(bytes, 16) - 1)) != 0) {  // bytes are a power of two
    error("misaligned",
          "an access of " + std::to_string(bytes) + " bytes at an address that they do not divide",
          site);
    return false;  // the CPU, too, might trap
  }
  const auto& range = memory_.find(at, used, site.pc + static_cast<uintptr_t>(action));
  const uint16_t memory = range.memory;
  if (memory == NO_MEMORY) {
    const Module& module = recorder_.module();
    if (at >= module.begin && at < module.end) return action == Action::load;  // a constant
    error("out of bounds", memory_.describe_outside(at), site);
    return false;
  }
  if (range.is_guard) return true;
  const uint64_t place = range.place(at);
  if (counts_) {
    const unsigned lane = running().linear % WARP_SIZE;
    const LaneEvent event = event_of(site, action, bytes, memory);
    const bool copies = action == Action::copy_from || action == Action::copy_to;
    limit_events(!copies ? running_warp().add(lane, event, place)
                 : partner
                     ? running_warp().add_copy(lane, event, place, place_of(partner, ~site.pc))
                     : running_warp().add_copy(lane, event, place, NOWHERE));
  }
  if (is_shared(memory)) {
    check_shared(action, address, {memory - SHARED, place}, bytes, site, speculative);
  }
  return true;
}

void Tracer::check_shared(Action action, const void* address, SharedMemory::Place place,
                          size_t bytes, Site site, bool speculative) {
  const unsigned self = running().linear;
  const auto verdict = action == Action::load ? shared_.load(place, bytes, self, site, speculative)
                       : action == Action::copy_to ? shared_.start_copy(place, bytes, self, site)
                       : action == Action::atomic
                           ? shared_.update_atomically(place, bytes, self, site)
                           : shared_.store(place, bytes, self, site);
  if (verdict && verdict->by_same_store) {
    RivalStore store{self, address, bytes, {}, *verdict, site};
    std::memcpy(store.before.data(), address, bytes);
    rival_stores_.push_back(store);
  } else if (verdict) {
    report(*verdict, site);
  }
}

void Tracer::judge_own_store() {
  const unsigned self = running().linear;
  const auto store = std::find_if(rival_stores_.begin(), rival_stores_.end(),
                                  [&](const RivalStore& s) { return s.thread == self; });
  if (store == rival_stores_.end()) return;
  if (std::memcmp(store->before.data(), store->address, store->bytes) != 0) {
    report(store->error, store->site);
  }
  rival_stores_.erase(store);
}

void Tracer::report(const SharedMemory::Error& error, Site site) {
  const unsigned self = running().linear;
  fault(error.kind, error.detail(self), two_threads(self, error.other), site);
}

bool Tracer::copy(void* shared, const void* global, int bytes, int bytes_read, Site site) {
  const auto width = static_cast<size_t>(bytes), used = static_cast<size_t>(bytes_read);
  if (used > 0 && !access(Action::copy_from, global, width, used, shared, site)) {
    return false;
  }
  const bool through_cache = bytes < 16;
  const void* const source = used > 0 ? global : through_cache ? nullptr : shared;
  return access(Action::copy_to, shared, width, width, source, site);
}

void Tracer::drain(unsigned warp, uint32_t running) {
  warps_[warp].drain(running, [&](const LaneEvent& event, const Request& request) {
    account(warp, event, request);
  });
}

void Tracer::fault(const std::string& kind, const std::string& detail, const std::string& threads,
                   Site site) {
  auto [found, is_new] = faults_.try_emplace({kind, site.text()});
  if (!is_new) {
    ++found->second.count;
    return;
  }
  found->second = {
      kind, site.pc, {block_index_.x, block_index_.y, block_index_.z}, threads, detail};
}

}  // namespace smem::cpu_emulator::trace
