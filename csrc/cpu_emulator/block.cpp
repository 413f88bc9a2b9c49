#include "cpu_emulator/block.h"

#include <algorithm>
#include <map>
#include <string>

namespace smem::cpu_emulator {

namespace {
// Kernels keep up to 64 accumulators and their fragments on the stack, and a first call through
// the dynamic linker takes about 4 KiB. The 192 bytes stagger the stacks over the cache sets.
constexpr size_t STACK_BYTES = 32 * 1024 + 192;
}  // namespace

thread_local Thread* current_thread = nullptr;

void sync_threads(Site site) { current_thread->block->sync_threads(site); }
void sync_warp(unsigned mask, Site site) {
  current_thread->block->sync_warp(mask, WarpSync::barrier, 0, site);
}
uint64_t shuffle_bits(unsigned mask, uint64_t bits, int bytes, unsigned source, Site site) {
  return current_thread->block->shuffle_bits(mask, bits, bytes, source, site);
}
std::pair<void*, size_t> dynamic_shared() {
  const SharedRun shared = current_thread->block->dynamic_shared();
  return {shared.to, shared.bytes};
}
void cp_async(SharedRun shared, const void* global, int bytes_read) {
  current_thread->block->cp_async(shared, global, bytes_read);
}
void cp_async_commit() { current_thread->block->cp_async_commit(); }
void cp_async_wait(int groups_left) { current_thread->block->cp_async_wait(groups_left); }
void cp_async_wait_all() {
  current_thread->block->cp_async_commit();
  current_thread->block->cp_async_wait(0);
}

Block::Block(dim3 grid, dim3 threads, size_t dynamic_shared_bytes, Body body, void* context,
             Observer* observer)
    : body_(body),
      context_(context),
      grid_(grid),
      observer_(observer),
      fibers_(threads.x * threads.y * threads.z),
      warps_((fibers_.size() + WARP_SIZE - 1) / WARP_SIZE),
      previous_(fibers_.size()),
      stacks_(new unsigned char[fibers_.size() * STACK_BYTES]),
      dynamic_shared_bytes_(dynamic_shared_bytes),
      dynamic_shared_((dynamic_shared_bytes + sizeof(Line) - 1) / sizeof(Line)) {
  for (unsigned i = 0; i < fibers_.size(); ++i) {
    const dim3 thread{i % threads.x, i / threads.x % threads.y, i / threads.x / threads.y};
    fibers_[i].thread = {thread, {}, threads, grid, i, this, observer, 0};
  }
}

void Block::run(int64_t block_index) {
  const auto count = static_cast<unsigned>(fibers_.size());
  const auto index = static_cast<unsigned>(block_index % grid_.x);
  const auto rest = static_cast<unsigned>(block_index / grid_.x);
  const dim3 block{index, rest % grid_.y, rest / grid_.y};
  for (auto& warp : warps_) warp = {};
  for (unsigned i = 0; i < count; ++i) {
    Fiber& fiber = fibers_[i];
    fiber.thread.block_index = block;
    fiber.thread.iteration = 0;
    fiber.next = (i + 1) % count;
    previous_[i] = (i + count - 1) % count;
    fiber.warp_syncs = 0;
    fiber.ended = false;
    fiber.wait = {};
    fiber.groups.resize(1);
    fiber.groups[0].clear();
    warps_[i / WARP_SIZE].alive |= 1u << (i % WARP_SIZE);
    prepare_context(fiber.context, &stacks_[i * STACK_BYTES], STACK_BYTES, &Block::enter_fiber);
  }
  alive_ = count;
  arrived_ = 0;
  error_ = nullptr;
  if (observer_)
    observer_->block_begins(block, static_cast<uint64_t>(block_index), count, dynamic_shared());
  current_thread = &fibers_[0].thread;
  switch_context(caller_, fibers_[0].context);
  current_thread = nullptr;
  if (observer_) observer_->block_ends();
  if (error_) std::rethrow_exception(error_);
}

void Block::enter_fiber() {
  Block* block = current_thread->block;
  block->run_body();
  block->end_fiber();
}

void Block::run_body() {
  try {
    body_(context_);
  } catch (...) {
    if (!error_) error_ = std::current_exception();
  }
}

void Block::end_fiber() {
  const unsigned self = current_thread->linear;
  ++progress_;
  Fiber& fiber = fibers_[self];
  fiber.ended = true;
  warps_[self / WARP_SIZE].alive &= ~(1u << (self % WARP_SIZE));
  if (observer_) observer_->thread_ends(self);
  if (--alive_ == 0 || error_) {
    // After an error the other fibers are abandoned: they own no resources.
    switch_context(fiber.context, caller_);
  }
  fibers_[previous_[self]].next = fiber.next;
  previous_[fiber.next] = previous_[self];
  open_barrier_if_all_arrived();  // as on the GPU, a barrier waits for no thread that has ended
  switch_to(fiber.next);
}

void Block::switch_to(unsigned target) {
  Fiber& from = running();
  current_thread = &fibers_[target].thread;
  switch_context(from.context, fibers_[target].context);
}

template <typename Condition>
void Block::wait_until(Condition passed, const char* where, Site site) {
  Fiber& self = running();
  self.wait = {where, site};
  while (!passed()) {
    const uint64_t before = progress_;
    switch_to(self.next);
    // Every other fiber has run once. If none made progress, none ever will.
    if (progress_ == before && !passed()) report_deadlock(site);
  }
  self.wait = {};
}

void Block::report_deadlock(Site site) {
  std::map<std::string, int> waiting;
  for (const Fiber& fiber : fibers_) {
    if (!fiber.ended) ++waiting[std::string(fiber.wait.at) + " (" + fiber.wait.site.text() + ")"];
  }
  std::string text;
  for (const auto& [where, count] : waiting) {
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " at " + where;
  }
  text = "deadlock: of " + std::to_string(fibers_.size()) + " threads of block " +
         std::to_string(current_thread->block_index.x) + " wait " + text + "; " +
         std::to_string(fibers_.size() - alive_) + " have ended";
  if (observer_) observer_->deadlock(text.c_str(), site);
  throw Deadlock("cpu_emulator: " + text);
}

void Block::open_barrier_if_all_arrived() {
  if (arrived_ > 0 && arrived_ == alive_) {
    if (observer_) observer_->barrier_opens(arrived_, static_cast<unsigned>(fibers_.size()));
    arrived_ = 0;
    ++barrier_count_;
    ++progress_;
  }
}

void Block::sync_threads(Site site) {
  const uint64_t before = barrier_count_;
  if (observer_) observer_->thread_at_barrier(current_thread->linear, site);
  ++arrived_;
  ++progress_;
  open_barrier_if_all_arrived();
  wait_until([&] { return barrier_count_ != before; }, "__syncthreads", site);
}

void Block::open_warp_sync(unsigned warp_index, unsigned passed) {
  Warp& warp = warps_[warp_index];
  warp.arrived &= ~passed;
  ++progress_;
  for (unsigned l = 0; l < WARP_SIZE; ++l) {
    if (passed >> l & 1) ++fibers_[warp_index * WARP_SIZE + l].warp_syncs;
  }
}

void Block::sync_warp(unsigned mask, WarpSync kind, int bytes, Site site) {
  Fiber& self = running();
  const unsigned warp_index = self.thread.linear / WARP_SIZE;
  Warp& warp = warps_[warp_index];
  const uint64_t before = self.warp_syncs;
  const bool heard = observer_ && kind != WarpSync::shuffle_end;
  if (heard) observer_->lane_at_warp_sync(self.thread.linear, kind, bytes, mask, site);
  warp.arrived |= 1u << lane();
  ++progress_;
  wait_until(
      [&] {
        if (self.warp_syncs != before) return true;
        const unsigned needed = mask & warp.alive;
        if ((warp.arrived & needed) != needed) return false;
        const unsigned passed = needed | 1u << lane();
        if (heard) observer_->warp_sync_opens(warp_index, kind, passed, warp.alive);
        open_warp_sync(warp_index, passed);
        return true;
      },
      kind == WarpSync::barrier ? "__syncwarp" : "a shuffle", site);
}

uint64_t Block::shuffle_bits(unsigned mask, uint64_t bits, int bytes, unsigned source, Site site) {
  Warp& warp = warps_[current_thread->linear / WARP_SIZE];
  warp.value[lane()] = bits;
  sync_warp(mask, WarpSync::shuffle, bytes, site);
  const bool given = (mask & warp.alive) >> source & 1;
  if (!given && observer_) {
    observer_->shuffle_without_source(current_thread->linear, source, site);
  }
  const uint64_t result = given ? warp.value[source] : bits;
  sync_warp(mask, WarpSync::shuffle_end, bytes, site);
  return result;
}

void Block::cp_async(SharedRun shared, const void* global, int bytes_read) {
  Copy copy{shared.to, shared.bytes, {}};
  std::memcpy(copy.data, global, static_cast<size_t>(bytes_read));
  running().groups.back().push_back(copy);
}

void Block::cp_async_commit() { running().groups.emplace_back(); }

void Block::cp_async_wait(size_t groups_left) {
  auto& groups = running().groups;
  const size_t closed = groups.size() - 1;
  if (closed <= groups_left) return;
  const auto landing = groups.begin() + static_cast<std::ptrdiff_t>(closed - groups_left);
  for (auto group = groups.begin(); group != landing; ++group) {
    for (const Copy& copy : *group) {
      std::memcpy(copy.to, copy.data, static_cast<size_t>(copy.bytes));
      if (observer_) observer_->copy_lands(current_thread->linear, copy);
    }
  }
  groups.erase(groups.begin(), landing);
}

}  // namespace smem::cpu_emulator
