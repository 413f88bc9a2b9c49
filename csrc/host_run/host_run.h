// Runs a SIMT kernel on the CPU: the threads of a block are fibers on one operating-system thread,
// blocks are spread over the cores. A fiber runs until it waits (barrier, shuffle) or ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace smem::host_run {

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};

class Block;

struct Thread {
  dim3 index, block_index, block_threads;
  unsigned linear;  ///< x + y * block_threads.x + z * block_threads.x * block_threads.y
  Block* block;
};

/// The fiber that runs; set at every switch.
extern thread_local Thread* current_thread;

constexpr unsigned WARP_SIZE = 32;

inline unsigned lane() { return current_thread->linear % WARP_SIZE; }

void sync_threads();
void sync_warp(unsigned mask);

/// The block's dynamic shared memory.
void* dynamic_shared_bytes();

/// Every lane in `mask` gives its 8 bytes and takes those of `source`, or its own where `source`
/// is beyond the warp or not in the mask.
uint64_t shuffle_bits(unsigned mask, uint64_t bits, unsigned source);

template <typename T>
T shuffle(unsigned mask, T value, unsigned source) {
  static_assert(sizeof(T) <= sizeof(uint64_t), "a shuffle moves at most 8 bytes a lane");
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = shuffle_bits(mask, bits, source);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

using Body = void (*)(void* context);

void run(int64_t blocks, dim3 threads, size_t dynamic_shared_bytes, Body body, void* context);

/// Runs `body` once for every thread of every block. Throws what a thread threw, and
/// std::runtime_error where threads wait for each other for ever.
template <typename F>
void run(int64_t blocks, dim3 threads, size_t dynamic_shared_bytes, F body) {
  run(blocks, threads, dynamic_shared_bytes, [](void* f) { (*static_cast<F*>(f))(); }, &body);
}

}  // namespace smem::host_run
