#include "cpu_emulator/block.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cpu_emulator/cluster.h"
#include "cpu_emulator/interrupt.h"
#include "cpu_emulator/sm90/block_state.h"

namespace smem::cpu_emulator {

namespace {
// A function may be entered with this much left: more than a frame, of which the compiler of users'
// kernels admits 64 KiB (raw_kernel/compiler.py), and the emulator's own calls.
constexpr size_t STACK_RESERVE = 80 * 1024;

// How many times lanes go on at an atomic or volatile access, perhaps in a loop that waits for
// others, before it is the others' turn.
constexpr unsigned PATIENCE = 16;
}  // namespace

constinit thread_local Thread* current_thread = nullptr;
std::atomic<int> observed_blocks{0};

void* dynamic_shared() { return current_thread->block->dynamic_shared().to; }

Block::Block(Cluster& cluster, Ring& ring, Body body, void* context, dim3 grid, dim3 threads,
             size_t dynamic_shared_bytes, std::unique_ptr<Observer> observer)
    : cluster_(cluster),
      ring_(ring),
      body_(body),
      context_(context),
      grid_(grid),
      observer_(std::move(observer)),
      fibers_(threads.x * threads.y * threads.z),
      warps_((fibers_.size() + WARP_SIZE - 1) / WARP_SIZE),
      stacks_(fibers_.size() * STACK_BYTES),
      dynamic_shared_bytes_(dynamic_shared_bytes),
      dynamic_shared_((DYNAMIC_SHARED_OFFSET + dynamic_shared_bytes) / sizeof(Line) + 1) {
  observed_blocks += observer_ != nullptr;
  // Nothing may rely on zeros: as uninitialised memory it is NaN.
  std::memset(dynamic_shared_.data(), 0xff, dynamic_shared_.size() * sizeof(Line));
  for (unsigned i = 0; i < fibers_.size(); ++i) {
    const dim3 thread{i % threads.x, i / threads.x % threads.y, i / threads.x / threads.y};
    const unsigned char* const limit = stack_of(i) + STACK_RESERVE;
    fibers_[i].thread = {thread, {}, threads, grid, i, this, observer_.get(), limit};
  }
}

Block::~Block() { observed_blocks -= observer_ != nullptr; }

sm90::BlockState& Block::sm90() {
  if (!sm90_) sm90_ = std::make_unique<sm90::BlockState>(*this);
  return *sm90_;
}

void Block::begin(int64_t block_index) {
  const auto count = static_cast<unsigned>(fibers_.size());
  const auto index = static_cast<unsigned>(block_index % grid_.x);
  const auto rest = static_cast<unsigned>(block_index / grid_.x);
  const dim3 block{index, rest % grid_.y, rest / grid_.y};
  for (auto& warp : warps_) warp = {};
  for (unsigned i = 0; i < count; ++i) {
    Fiber& fiber = fibers_[i];
    fiber.thread.block_index = block;
    fiber.thread.steps_left = observer_ ? observer_->step_limit() : 0;
    fiber.thread.logs = observer_ && observer_->keeps_events();
    fiber.thread.lets_others_run = false;
    fiber.thread.depth = 0;
    fiber.thread.in_emulator = true;
    fiber.thread.operations = {};
    link(fiber, fibers_[(i + 1) % count]);
    fiber.warp_syncs = 0;
    fiber.passed_over = fiber.passed_at_once = 0;
    fiber.ended = false;
    fiber.wait = {};
    fiber.groups.resize(1);
    fiber.groups[0].clear();
    fiber.bound_groups = 0;
    warps_[i / WARP_SIZE].alive |= 1u << (i % WARP_SIZE);
    prepare_context(fiber.context, stack_of(i), STACK_BYTES, &Block::enter_fiber);
  }
  alive_ = count;
  ring_.alive += count;
  arrived_ = 0;
  async_barriers_.clear();
  reduced_[0] = reduced_[1] = {};
  if (observer_) {
    observer_->block_begins(block, static_cast<uint64_t>(block_index), count, dynamic_shared());
  }
}

void Block::take_turns_with(Block& other) {
  Fiber &own_last = *fibers_[0].previous, &other_last = *other.fibers_[0].previous;
  link(own_last, other.fibers_[0]);
  link(other_last, fibers_[0]);
}

void Block::run_ring() {
  Thread* next = &fibers_[0].thread;
  while (next && !ring_.error) {
    current_thread = next;
    switch_context(ring_.caller, next->block->running().context);
    current_thread = nullptr;
    next = std::exchange(ring_.paused, nullptr);
    try {
      if (next) throw_if_interrupted();
    } catch (...) {
      ring_.error = std::current_exception();
    }
  }
}

void Block::pause() {
  ring_.paused = current_thread;
  switch_context(running().context, ring_.caller);
}

void Block::end() {
  if (observer_) observer_->block_ends();
  sm90_.reset();
}

void Block::enter_fiber() {
  Block* block = current_thread->block;
  block->run_body();
  block->end_fiber();
}

void Block::run_body() {
  current_thread->in_emulator = false;
  try {
    body_(context_);
  } catch (...) {
    if (!ring_.error) ring_.error = std::current_exception();
  }
}

void Block::end_fiber() {
  Fiber& fiber = running();
  const unsigned self = fiber.thread.linear;
  fiber.thread.in_emulator = true;
  ++ring_.progress;
  fiber.ended = true;
  warps_[self / WARP_SIZE].alive &= ~(1u << (self % WARP_SIZE));
  if (observer_) observer_->thread_ends(self);
  --alive_;
  if (--ring_.alive == 0 || ring_.error) {
    // After an error the other fibers are abandoned: they own no resources.
    switch_context(fiber.context, ring_.caller);
  }
  link(*fiber.previous, *fiber.next);
  // As on the GPU, barriers wait for no thread that has ended.
  open_barrier_if_all_arrived();
  cluster_.open_barrier_if_all_arrived();
  switch_to(*fiber.next);
}

void Block::switch_to(Fiber& target) {
  Fiber& from = running();
  current_thread = &target.thread;
  switch_context(from.context, target.context);
}

void Block::count_waiting(std::map<std::string, int>& waiting) const {
  for (const Fiber& fiber : fibers_) {
    if (fiber.ended) continue;
    // Without a tracer nobody turns the place into a line.
    std::string where = fiber.wait.at ? fiber.wait.at : "no call";
    if (observer_) where += " (" + fiber.wait.site.text() + ")";
    ++waiting[where];
  }
}

void Block::go_on_or_report(Site site) {
  if (cluster_.go_on()) return;
  const std::string text = cluster_.describe_deadlock();
  if (observer_) observer_->deadlock(text.c_str(), site);
  throw Deadlock("cpu_emulator: " + text);
}

void Block::open_barrier_if_all_arrived() {
  if (arrived_ > 0 && arrived_ == alive_) {
    if (observer_) observer_->barrier_opens(arrived_, threads_at_barriers());
    arrived_ = 0;
    ++barrier_count_;
    ++ring_.progress;
    for (Fiber& fiber : fibers_) fiber.wait = {};  // all of them can go on
  }
}

/// All of them; but if the warps have roles, so that they wait for each other at mbarriers, a warp
/// that is done may end before the others.
unsigned Block::threads_at_barriers() const {
  const auto count = static_cast<unsigned>(fibers_.size());
  if (!sm90_ || sm90_->barriers.empty()) return count;
  unsigned threads = 0;
  for (unsigned warp = 0; warp < warps_.size(); ++warp) {
    if (warps_[warp].alive) threads += std::min(count - warp * WARP_SIZE, WARP_SIZE);
  }
  return threads;
}

void Block::sync_threads(Site site) {
  const uint64_t before = barrier_count_;
  if (observer_) observer_->thread_at_barrier(current_thread->linear, site);
  ++arrived_;
  ++ring_.progress;
  open_barrier_if_all_arrived();
  wait_until([&] { return barrier_count_ != before; }, "__syncthreads", site);
}

void Block::arrive_in_cluster() {
  running().cluster_barrier = cluster_.arrivals_completed();
  cluster_.arrive();
}

void Block::wait_for_cluster(Site site) {
  const uint64_t before = running().cluster_barrier;
  wait_until([&] { return cluster_.arrivals_completed() != before; }, "barrier.cluster.wait", site);
}

void Block::open_warp_sync(unsigned warp_index, unsigned passed) {
  Warp& warp = warps_[warp_index];
  warp.arrived &= ~passed;
  ++ring_.progress;
  for (unsigned l = 0; l < WARP_SIZE; ++l) {
    if (!(passed >> l & 1)) continue;
    Fiber& fiber = fibers_[warp_index * WARP_SIZE + l];
    ++fiber.warp_syncs;
    fiber.wait = {};  // it can go on
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
  ++ring_.progress;
  wait_until(
      [&] {
        if (self.warp_syncs != before) return true;
        const unsigned needed = mask & warp.alive;
        if ((warp.arrived & needed) != needed) return false;
        const unsigned passed = needed | 1u << lane();
        if (heard) observer_->warp_sync_opens(warp_index, kind, passed);
        open_warp_sync(warp_index, passed);
        return true;
      },
      kind == WarpSync::barrier ? "__syncwarp"
      : bytes == 0              ? "an instruction of the whole warp"
                                : "a shuffle",
      site);
}

int Block::sync_threads_reduce(int value, smem_reduction reduction, Site site) {
  Reduced& reduced = reduced_[barrier_count_ % 2];
  if (arrived_ == 0) reduced = {};
  reduced.sum += value;
  reduced.all &= value != 0;
  reduced.any |= value != 0;
  sync_threads(site);
  // The next barrier opens only when all threads have read this one's results.
  return reduction == smem_sum ? reduced.sum : reduction == smem_and ? reduced.all : reduced.any;
}

template <typename Read>
auto Block::give_and_read(unsigned mask, uint64_t bits, int bytes, WarpSync kind, Site site,
                          const Read& read) {
  Warp& warp = warps_[current_thread->linear / WARP_SIZE];
  warp.value[lane()] = bits;
  sync_warp(mask, kind, bytes, site);
  const auto result = read(warp);
  sync_warp(mask, WarpSync::shuffle_end, bytes, site);
  return result;
}

unsigned Block::exchange(unsigned mask, uint64_t bits, uint64_t* all, Site site) {
  return give_and_read(mask, bits, 4, WarpSync::shuffle, site, [&](const Warp& warp) {
    std::copy(std::begin(warp.value), std::end(warp.value), all);
    return mask & warp.alive;
  });
}

unsigned Block::meet(void* given, void* (&all)[WARP_SIZE], Site site) {
  const auto bits = reinterpret_cast<uintptr_t>(given);
  return give_and_read(~0u, bits, 0, WarpSync::shuffle_end, site, [&](const Warp& warp) {
    for (unsigned l = 0; l < WARP_SIZE; ++l) all[l] = reinterpret_cast<void*>(warp.value[l]);
    return warp.alive;
  });
}

uint64_t Block::shuffle_bits(unsigned mask, uint64_t bits, int bytes, unsigned source, Site site) {
  return give_and_read(mask, bits, bytes, WarpSync::shuffle, site, [&](const Warp& warp) {
    const bool given = source < WARP_SIZE && ((mask & warp.alive) >> source & 1);
    if (!given && observer_) {
      observer_->shuffle_without_source(current_thread->linear, source, site);
    }
    return given ? warp.value[source] : bits;
  });
}

unsigned Block::lanes_to_go_on(unsigned warp_index) {
  const Warp& warp = warps_[warp_index];
  const auto before = [](const Fiber& a, const Fiber& b) {
    const bool late_a = a.passed_over >= PATIENCE, late_b = b.passed_over >= PATIENCE;
    if (late_a != late_b) return late_a;
    const unsigned depth_a = a.thread.depth, depth_b = b.thread.depth;
    return depth_a != depth_b ? depth_a > depth_b : a.wait.site.pc < b.wait.site.pc;
  };
  const Fiber* first = nullptr;
  for (unsigned l = 0; l < WARP_SIZE; ++l) {
    if (!(warp.alive >> l & 1)) continue;
    const Fiber& fiber = fibers_[warp_index * WARP_SIZE + l];
    if (!fiber.wait.at) return 0;
    if ((warp.stopped >> l & 1) && (!first || before(fiber, *first))) first = &fiber;
  }
  unsigned lanes = 0;
  for (unsigned l = 0; first && l < WARP_SIZE; ++l) {
    if (!(warp.stopped >> l & 1)) continue;
    Fiber& fiber = fibers_[warp_index * WARP_SIZE + l];
    const bool goes =
        fiber.thread.depth == first->thread.depth && fiber.wait.site == first->wait.site;
    if (goes) lanes |= 1u << l;
    fiber.passed_over = goes ? 0 : fiber.passed_over + 1;
  }
  return lanes;
}

unsigned Block::converge(Site site) {
  const unsigned warp_index = current_thread->linear / WARP_SIZE, self = 1u << lane();
  Warp& warp = warps_[warp_index];
  warp.stopped |= self;
  ++ring_.progress;
  unsigned polls = 0;
  wait_until(
      [&] {
        ++polls;
        if (!warp.going) {
          warp.going = warp.together = lanes_to_go_on(warp_index);
          if (warp.going) ++ring_.progress;
        }
        return (warp.going & self) != 0;
      },
      "an atomic or volatile access", site);
  warp.going &= ~self;
  warp.stopped &= ~self;
  const unsigned together = warp.together;
  // The last lane of its warp may be in a loop that waits for another warp.
  if (polls == 1 && ++running().passed_at_once % PATIENCE == 0) yield();
  return together;
}

void Block::yield() {
  Fiber& self = running();
  ++ring_.progress;
  if (self.next != &self) switch_to(*self.next);
}

void Block::abandon() {
  end_fiber();
  __builtin_unreachable();
}

void Block::cp_async(SharedRun shared, const void* global, int bytes_read) {
  Copy copy{shared.to, shared.bytes, {}};
  std::memcpy(copy.data, global, static_cast<size_t>(bytes_read));
  open_copies().push_back(copy);
}

void Block::land(std::vector<Copy>& copies) {
  for (const Copy& copy : copies) {
    std::memcpy(copy.to, copy.data, static_cast<size_t>(copy.bytes));
    if (observer_) observer_->bound_copy_lands(copy);
  }
  copies.clear();
}

void Block::cp_async_commit() { running().groups.emplace_back(); }

void Block::cp_async_wait(size_t groups_left, Site site) {
  if (groups_left == 0 && bound_groups() > 0) {
    wait_until([&bound = bound_groups()] { return bound == 0; }, "cp.async.wait_group", site);
  }
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
