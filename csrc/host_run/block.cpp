#include "host_run/block.h"

#include <stdexcept>
#include <string>

namespace smem::host_run {

namespace {
// Kernels keep up to 64 accumulators and their fragments on the stack, and a first call through
// the dynamic linker takes about 4 KiB. The 192 bytes stagger the stacks over the cache sets.
constexpr size_t STACK_BYTES = 32 * 1024 + 192;
}  // namespace

thread_local Thread* current_thread = nullptr;

void sync_threads() { current_thread->block->sync_threads(); }
void sync_warp(unsigned mask) { current_thread->block->sync_warp(mask); }
void* dynamic_shared_bytes() { return current_thread->block->dynamic_shared(); }
uint64_t shuffle_bits(unsigned mask, uint64_t bits, unsigned source) {
  return current_thread->block->shuffle_bits(mask, bits, source);
}

Block::Block(dim3 threads, size_t dynamic_shared_bytes, Body body, void* context)
    : body_(body),
      context_(context),
      fibers_(threads.x * threads.y * threads.z),
      warps_((fibers_.size() + WARP_SIZE - 1) / WARP_SIZE),
      previous_(fibers_.size()),
      stacks_(new unsigned char[fibers_.size() * STACK_BYTES]),
      dynamic_shared_((dynamic_shared_bytes + sizeof(Line) - 1) / sizeof(Line)) {
  for (unsigned i = 0; i < fibers_.size(); ++i) {
    const dim3 thread{i % threads.x, i / threads.x % threads.y, i / threads.x / threads.y};
    fibers_[i].thread = {thread, {}, threads, i, this};
  }
}

void Block::run(int64_t block_index) {
  const auto count = static_cast<unsigned>(fibers_.size());
  for (auto& warp : warps_) warp = {};
  for (unsigned i = 0; i < count; ++i) {
    Fiber& fiber = fibers_[i];
    fiber.thread.block_index = {static_cast<unsigned>(block_index), 0, 0};
    fiber.next = (i + 1) % count;
    previous_[i] = (i + count - 1) % count;
    fiber.warp_turn = 0;
    warps_[i / WARP_SIZE].alive |= 1u << (i % WARP_SIZE);
    prepare_context(fiber.context, &stacks_[i * STACK_BYTES], STACK_BYTES, &Block::enter_fiber);
  }
  alive_ = count;
  arrived_ = 0;
  error_ = nullptr;
  current_thread = &fibers_[0].thread;
  switch_context(caller_, fibers_[0].context);
  current_thread = nullptr;
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
  warps_[self / WARP_SIZE].alive &= ~(1u << (self % WARP_SIZE));
  if (--alive_ == 0 || error_) {
    // After an error the other fibers are left where they stand: they own no resources.
    switch_context(fiber.context, caller_);
  }
  fibers_[previous_[self]].next = fiber.next;
  previous_[fiber.next] = previous_[self];
  release_if_all_arrived();  // as on the GPU, a barrier does not wait for threads that have ended
  switch_to(fiber.next);
}

void Block::switch_to(unsigned target) {
  Fiber& from = fibers_[current_thread->linear];
  current_thread = &fibers_[target].thread;
  switch_context(from.context, fibers_[target].context);
}

template <typename Condition>
void Block::wait_until(Condition passed, const char* where) {
  while (!passed()) {
    const uint64_t before = progress_;
    const unsigned self = current_thread->linear;
    switch_to(fibers_[self].next);
    // The ring has come round: every other fiber ran. If none moved on, none ever will.
    if (progress_ == before && !passed()) {
      throw std::runtime_error(std::string("host_run: deadlock: thread ") + std::to_string(self) +
                               " of block " + std::to_string(current_thread->block_index.x) +
                               " waits at " + where + " for threads that never reach it");
    }
  }
}

void Block::release_if_all_arrived() {
  if (arrived_ > 0 && arrived_ == alive_) {
    arrived_ = 0;
    ++turn_;
    ++progress_;
  }
}

void Block::sync_threads() {
  const uint64_t turn = turn_;
  ++arrived_;
  ++progress_;
  release_if_all_arrived();
  wait_until([&] { return turn_ != turn; }, "__syncthreads");
}

void Block::release_warp(unsigned warp_index, unsigned mask) {
  Warp& warp = warps_[warp_index];
  warp.arrived &= ~mask;
  ++progress_;
  for (unsigned l = 0; l < WARP_SIZE; ++l) {
    if (mask >> l & 1) ++fibers_[warp_index * WARP_SIZE + l].warp_turn;
  }
}

void Block::sync_warp(unsigned mask) {
  Fiber& self = fibers_[current_thread->linear];
  const unsigned warp_index = self.thread.linear / WARP_SIZE;
  Warp& warp = warps_[warp_index];
  const uint64_t turn = self.warp_turn;
  warp.arrived |= 1u << lane();
  ++progress_;
  wait_until(
      [&] {
        if (self.warp_turn != turn) return true;
        const unsigned needed = mask & warp.alive;
        if ((warp.arrived & needed) != needed) return false;
        release_warp(warp_index, needed);
        return true;
      },
      "a warp barrier or shuffle");
}

uint64_t Block::shuffle_bits(unsigned mask, uint64_t bits, unsigned source) {
  Warp& warp = warps_[current_thread->linear / WARP_SIZE];
  warp.value[lane()] = bits;
  sync_warp(mask);
  const bool given = source < WARP_SIZE && (mask >> source & 1);
  const uint64_t result = given ? warp.value[source] : bits;
  sync_warp(mask);
  return result;
}

}  // namespace smem::host_run
