#include "cpu_emulator/trace/order.h"

#include <algorithm>
#include <utility>

namespace smem::cpu_emulator::trace {

namespace {

/// Adds what `from` knows to what `to` knows.
void join(uint32_t* to, const uint32_t* from, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] = std::max(to[i], from[i]);
}

}  // namespace

void Order::begin_block(unsigned threads) {
  barriers_ = 1;
  stretch_.assign((threads + WARP_SIZE - 1) / WARP_SIZE * WARP_SIZE, 1);
  width_ = 0;
}

void Order::know_of(unsigned width) {
  if (width_ >= width) return;
  const unsigned narrow = width_;
  const std::vector<uint32_t> known = std::move(seen_);
  width_ = width;
  seen_.assign(stretch_.size() * width, 0);
  for (unsigned thread = 0; narrow > 0 && thread < stretch_.size(); ++thread) {
    const unsigned warp_begin = thread / WARP_SIZE * WARP_SIZE;
    std::copy_n(&known[size_t{thread} * narrow], narrow, seen_by(thread) + warp_begin);
  }
}

void Order::pass_warp_barrier(unsigned warp, unsigned mask) {
  know_of(WARP_SIZE);
  const unsigned first = warp * WARP_SIZE, own = width_ == WARP_SIZE ? 0 : first;
  Clock joined(width_, 0);
  for (unsigned l = 0; l < WARP_SIZE; ++l) {
    if (!(mask >> l & 1)) continue;
    seen_by(first + l)[own + l] = stretch_[first + l]++;
    join(joined.data(), seen_by(first + l), width_);
  }
  for (unsigned l = 0; l < WARP_SIZE; ++l) {
    if (mask >> l & 1) std::copy(joined.begin(), joined.end(), seen_by(first + l));
  }
}

void Order::release(unsigned thread, Clock& clock) {
  know_of(static_cast<unsigned>(stretch_.size()));
  seen_by(thread)[thread] = stretch_[thread]++;
  clock.resize(width_, 0);
  join(clock.data(), seen_by(thread), width_);
}

void Order::acquire(unsigned thread, const Clock& clock) {
  if (!clock.empty()) join(seen_by(thread), clock.data(), width_);
}

bool Order::has_seen(unsigned thread, const Moment& moment) const {
  const unsigned first = width_ == WARP_SIZE ? thread / WARP_SIZE * WARP_SIZE : 0;
  const unsigned place = moment.thread - first;  // beyond the row for another warp's lane
  return place < width_ && seen_[size_t{thread} * width_ + place] >= moment.stretch;
}

}  // namespace smem::cpu_emulator::trace
