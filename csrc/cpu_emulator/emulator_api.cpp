// The emulator's side of cuda/emulator_api.h. Each call's site is the address that it returns to.
#include "cpu_emulator/cuda/emulator_api.h"

#include <chrono>

#include "cpu_emulator/counted.h"
#include "cpu_emulator/fault.h"

using smem::cpu_emulator::Action;
using smem::cpu_emulator::Block;
using smem::cpu_emulator::current_thread;
using smem::cpu_emulator::InEmulator;
using smem::cpu_emulator::Site;
using smem::cpu_emulator::WarpSync;

#define HERE Site::of(__builtin_return_address(0))

void smem::cpu_emulator::count(uint64_t Operations::* operation) {
  if (!is_observed() || !current_thread) return;
  ++(current_thread->operations.*operation);
}

namespace {

Block& block() { return *current_thread->block; }

uint3 triple(dim3 v) { return {v.x, v.y, v.z}; }

/// Reports an access; one to memory that does not exist ends the thread.
void report(Action action, const void* address, int bytes, Site site) {
  auto* const observer = current_thread->observer;
  if (!observer || block().in_stacks(address)) return;
  if (!observer->access(action, address, static_cast<size_t>(bytes), site)) block().abandon();
}

}  // namespace

uint3 smem_thread_index() { return triple(current_thread->index); }
uint3 smem_block_index() { return triple(current_thread->block_index); }
uint3 smem_block_size() { return triple(current_thread->block_threads); }
uint3 smem_grid_size() { return triple(current_thread->grid); }
unsigned smem_thread_number() { return current_thread->linear; }

void smem_syncthreads() {
  const InEmulator guard;
  block().sync_threads(HERE);
}
void smem_syncwarp(unsigned mask) {
  const InEmulator guard;
  block().sync_warp(mask, WarpSync::barrier, 0, HERE);
}

int smem_syncthreads_reduce(int value, smem_reduction reduction) {
  const InEmulator guard;
  return block().sync_threads_reduce(value, reduction, HERE);
}

uint64_t smem_shuffle(unsigned mask, uint64_t bits, int bytes, unsigned source) {
  const InEmulator guard;
  return block().shuffle_bits(mask, bits, bytes, source, HERE);
}
unsigned smem_exchange(unsigned mask, uint64_t bits, uint64_t* all) {
  const InEmulator guard;
  return block().exchange(mask, bits, all, HERE);
}
unsigned smem_activemask() {
  const InEmulator guard;
  return block().converge(HERE);
}

void smem_atomic(void* address, int bytes) {
  const InEmulator guard;
  const Site site = HERE;
  report(Action::atomic, address, bytes, site);
  block().converge(site);
}

void smem_cp_async(void* shared, const void* global, int bytes, int bytes_read) {
  const InEmulator guard;
  auto* const observer = current_thread->observer;
  if (observer && !observer->copy(shared, global, bytes, bytes_read, HERE)) block().abandon();
  block().cp_async({shared, bytes}, global, bytes_read);
}
void smem_cp_async_commit() {
  const InEmulator guard;
  block().cp_async_commit();
}
void smem_cp_async_wait(int groups_left) {
  const InEmulator guard;
  block().cp_async_wait(static_cast<size_t>(groups_left), HERE);
}

void smem_barrier_init(void* barrier, int64_t expected) {
  const InEmulator guard;
  block().async_barriers().init(barrier, expected, HERE);
}
bool smem_barrier_arrive(void* barrier, int64_t arrivals, bool drops) {
  const InEmulator guard;
  return block().async_barriers().arrive(barrier, arrivals, drops, HERE);
}
void smem_barrier_wait(const void* barrier, bool parity) {
  const InEmulator guard;
  block().async_barriers().wait(barrier, parity, HERE);
}
void smem_cp_async_arrive(void* barrier) {
  const InEmulator guard;
  block().async_barriers().bind_copies(barrier, HERE);
}

long long smem_clock() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

void smem_yield() {
  const InEmulator guard;
  block().yield();
}

void smem_endless_loop() {
  const InEmulator guard;
  record_fault(block(), "endless loop", "the loop does nothing and has no end", HERE);
  block().abandon();
}

void smem_fault(const char* kind, const char* detail) {
  const InEmulator guard;
  record_fault(block(), kind, detail, HERE);
  block().abandon();
}
