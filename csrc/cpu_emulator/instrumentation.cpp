// The functions that g++ calls in a kernel compiled with -fsanitize=thread: before every load and
// store that may concern memory (not a register or a local variable that no pointer reaches), and
// at the begin and end of a function. ThreadSanitizer's own library is not linked. With
// -fsanitize-coverage=trace-pc there is also a call in every basic block.
#include <cstdint>
#include <cstring>
#include <string>

#include "cpu_emulator/fault.h"
#include "cpu_emulator/sm90/block_state.h"

namespace smem::cpu_emulator {
namespace {

/// The running thread, unless it executes the emulator; null outside a kernel.
Thread* thread_in_kernel() {
  Thread* const thread = current_thread;
  return thread && !thread->in_emulator ? thread : nullptr;
}

void enter_function(const void* frame, Site site) {
  Thread* const thread = thread_in_kernel();
  if (!thread) return;
  ++thread->depth;
  if (frame >= thread->stack_limit) return;
  const InEmulator guard(thread);
  record_fault(*thread->block, "stack overflow",
               std::to_string(thread->depth) + " calls have not returned", site);
  thread->block->abandon();
}

[[noreturn, gnu::cold, gnu::noinline]] void end_endless(Thread& thread, Site site) {
  const InEmulator guard(&thread);
  thread.observer->error(
      "endless loop",
      "the thread has not ended after " + std::to_string(thread.observer->step_limit()) + " steps",
      site);
  throw Deadlock("cpu_emulator: endless loop");  // the other threads would take as long
}

constexpr uint64_t STEPS_BETWEEN_PAUSES = 4096;

[[gnu::cold, gnu::noinline]] void end_or_pause(Thread& thread, Site site) {
  if (thread.steps_left == 0) end_endless(thread, site);
  const InEmulator guard(&thread);
  thread.block->pause();
}

void count_step(Thread& thread, Site site) {
  if (thread.steps_left % STEPS_BETWEEN_PAUSES == 0) [[unlikely]] {
    end_or_pause(thread, site);
  }
  --thread.steps_left;
}

/// Gives the other lanes' events a chance to meet those of the thread's.
void let_others_catch_up(Thread& thread) {
  if (!thread.lets_others_run) return;
  thread.lets_others_run = false;
  thread.block->yield();
}

// These two are called where a block is observed. They are not inlined, so that all other calls
// return without a stack frame: every basic block of a kernel makes one.

[[gnu::noinline]] void basic_block(Site site) {
  Thread* const thread = thread_in_kernel();
  if (!thread || !thread->observer) return;
  count_step(*thread, site);
  if (!thread->logs) return;
  const InEmulator guard(thread);
  thread->observer->basic_block(site);
  let_others_catch_up(*thread);
}

[[gnu::noinline]] void access(Action action, const void* address, size_t bytes, Site site) {
  Thread* const thread = thread_in_kernel();
  if (!thread || thread->block->in_stacks(address)) return;
  if (auto* const state = thread->block->sm90_if_used()) {
    const InEmulator guard(thread);
    state->window.access(action, address, bytes, thread->linear, site);
  }
  if (!thread->observer) return;
  count_step(*thread, site);
  const InEmulator guard(thread);
  if (!thread->observer->access(action, address, bytes, site)) thread->block->abandon();
  let_others_catch_up(*thread);
}

/// Volatile and atomic accesses are executed by all lanes at one instruction before any lane goes
/// on, so that a lane can wait for what another lane stores.
void ordered_access(Action action, const volatile void* volatile_address, size_t bytes, Site site) {
  const void* const address = const_cast<const void*>(volatile_address);
  if (is_observed()) access(action, address, bytes, site);
  Thread* const thread = thread_in_kernel();
  if (!thread || thread->block->in_stacks(address)) return;
  const InEmulator guard(thread);
  thread->block->converge(site);
}

/// An access that the compiler does not know to be aligned, or of a size that no instruction has:
/// what a GPU's compiler makes of it depends on the type's alignment, which is taken from the
/// address.
void access_range(Action action, const void* address, size_t bytes, Site site) {
  if (!is_observed()) return;
  const auto begin = reinterpret_cast<uintptr_t>(address);
  size_t piece = bytes > 16 ? 16 : 4;
  while ((begin | bytes) % piece != 0) piece /= 2;
  for (size_t at = 0; at < bytes; at += piece) {
    access(action, static_cast<const char*>(address) + at, piece, site);
  }
}

}  // namespace
}  // namespace smem::cpu_emulator

using smem::cpu_emulator::access;
using smem::cpu_emulator::access_range;
using smem::cpu_emulator::Action;
using smem::cpu_emulator::is_observed;
using smem::cpu_emulator::ordered_access;
using smem::cpu_emulator::Site;
using smem::cpu_emulator::thread_in_kernel;

#define EXPORTED extern "C" __attribute__((visibility("default")))
#define HERE Site::of(__builtin_return_address(0))

#define ACCESS(function, action, bytes)                        \
  EXPORTED void function(void* p) {                            \
    if (is_observed()) access(Action::action, p, bytes, HERE); \
  }
#define ACCESSES_OF(bytes)                              \
  ACCESS(__tsan_read##bytes, load, bytes)               \
  ACCESS(__tsan_write##bytes, store, bytes)             \
  ACCESS(__tsan_unaligned_read##bytes, load, bytes)     \
  ACCESS(__tsan_unaligned_write##bytes, store, bytes)   \
  EXPORTED void __tsan_volatile_read##bytes(void* p) {  \
    ordered_access(Action::load, p, bytes, HERE);       \
  }                                                     \
  EXPORTED void __tsan_volatile_write##bytes(void* p) { \
    ordered_access(Action::store, p, bytes, HERE);      \
  }
ACCESSES_OF(1)
ACCESSES_OF(2)
ACCESSES_OF(4)
ACCESSES_OF(8)
ACCESSES_OF(16)

EXPORTED void __tsan_read_range(void* p, size_t bytes) {
  access_range(Action::load, p, bytes, HERE);
}
EXPORTED void __tsan_write_range(void* p, size_t bytes) {
  access_range(Action::store, p, bytes, HERE);
}

// The C library's functions, which kernels call by these names (cuda/c_library.h).
EXPORTED void* smem_memcpy(void* to, const void* from, size_t bytes) {
  access_range(Action::load, from, bytes, HERE);
  access_range(Action::store, to, bytes, HERE);
  return std::memcpy(to, from, bytes);
}
EXPORTED void* smem_memmove(void* to, const void* from, size_t bytes) {
  access_range(Action::load, from, bytes, HERE);
  access_range(Action::store, to, bytes, HERE);
  return std::memmove(to, from, bytes);
}
EXPORTED void* smem_memset(void* to, int value, size_t bytes) {
  access_range(Action::store, to, bytes, HERE);
  return std::memset(to, value, bytes);
}

EXPORTED void __tsan_init() {}
EXPORTED void __tsan_vptr_update(void**, void*) {}
EXPORTED void __tsan_vptr_read(void**) {}
EXPORTED void __tsan_func_entry(void* /*caller*/) {
  smem::cpu_emulator::enter_function(__builtin_frame_address(0), HERE);
}
EXPORTED void __tsan_func_exit() {
  if (auto* const thread = thread_in_kernel()) --thread->depth;
}

EXPORTED void __sanitizer_cov_trace_pc() {
  if (is_observed()) smem::cpu_emulator::basic_block(HERE);
}

// The compiler's atomic operations: std::atomic, __atomic_fetch_add.

#define ATOMICS_OF(bits)                                                                           \
  EXPORTED uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t* p, int) {      \
    ordered_access(Action::atomic, p, bits / 8, HERE);                                             \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                   \
  }                                                                                                \
  EXPORTED void __tsan_atomic##bits##_store(volatile uint##bits##_t* p, uint##bits##_t v, int) {   \
    ordered_access(Action::atomic, p, bits / 8, HERE);                                             \
    __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                                      \
  }                                                                                                \
  EXPORTED uint##bits##_t __tsan_atomic##bits##_exchange(volatile uint##bits##_t* p,               \
                                                         uint##bits##_t v, int) {                  \
    ordered_access(Action::atomic, p, bits / 8, HERE);                                             \
    return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                                            \
  }                                                                                                \
  EXPORTED int __tsan_atomic##bits##_compare_exchange_strong(                                      \
      volatile uint##bits##_t* p, uint##bits##_t* expected, uint##bits##_t v, int, int) {          \
    ordered_access(Action::atomic, p, bits / 8, HERE);                                             \
    return __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
  }                                                                                                \
  EXPORTED int __tsan_atomic##bits##_compare_exchange_weak(                                        \
      volatile uint##bits##_t* p, uint##bits##_t* expected, uint##bits##_t v, int, int) {          \
    ordered_access(Action::atomic, p, bits / 8, HERE);                                             \
    return __atomic_compare_exchange_n(p, expected, v, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);  \
  }
#define ATOMIC_FETCH(bits, operation)                                                         \
  EXPORTED uint##bits##_t __tsan_atomic##bits##_fetch_##operation(volatile uint##bits##_t* p, \
                                                                  uint##bits##_t v, int) {    \
    ordered_access(Action::atomic, p, bits / 8, HERE);                                        \
    return __atomic_fetch_##operation(p, v, __ATOMIC_SEQ_CST);                                \
  }
#define ALL_ATOMICS_OF(bits) \
  ATOMICS_OF(bits)           \
  ATOMIC_FETCH(bits, add)    \
  ATOMIC_FETCH(bits, sub)    \
  ATOMIC_FETCH(bits, and)    \
  ATOMIC_FETCH(bits, or)     \
  ATOMIC_FETCH(bits, xor)    \
  ATOMIC_FETCH(bits, nand)
ALL_ATOMICS_OF(8)
ALL_ATOMICS_OF(16)
ALL_ATOMICS_OF(32)
ALL_ATOMICS_OF(64)

EXPORTED void __tsan_atomic_thread_fence(int) {}
EXPORTED void __tsan_atomic_signal_fence(int) {}
