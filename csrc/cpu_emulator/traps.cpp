#include "cpu_emulator/traps.h"

#ifdef __x86_64__

#include <signal.h>
#include <ucontext.h>

#include <iterator>
#include <mutex>

#include "cpu_emulator/fault.h"

namespace smem::cpu_emulator {

namespace {

constexpr int SIGNALS[] = {SIGFPE, SIGSEGV, SIGBUS, SIGILL};

std::mutex lock;
int guards = 0;
struct sigaction before[std::size(SIGNALS)];

struct Trap {
  const char *kind, *detail;
};
constexpr Trap DIVISION{"division by zero",
                        "or its result has too many bits: a GPU's is undefined"};
constexpr Trap ACCESS{"out of bounds", "beyond a local array, or by a pointer that was never set"};
constexpr Trap INSTRUCTION{"illegal instruction",
                           "the compiler sees that what it stands for is undefined"};

const Trap& trap_of(int signal) {
  return signal == SIGFPE ? DIVISION : signal == SIGILL ? INSTRUCTION : ACCESS;
}

/// Where the kernel's thread goes on: out of the signal handler, in which locks may not be taken.
void end_thread(const Trap& trap, const char* instruction) {
  const InEmulator guard;
  Block& block = *current_thread->block;
  record_fault(block, trap.kind, trap.detail, Site::of(instruction + 1));
  block.abandon();
}

void handle(int signal, siginfo_t* info, void* context) {
  const Thread* const thread = current_thread;
  if (!thread || thread->in_emulator) {
    // The instruction is executed again, and whoever had the signal before gets it.
    for (size_t i = 0; i < std::size(SIGNALS); ++i) {
      if (SIGNALS[i] == signal) sigaction(signal, &before[i], nullptr);
    }
    return;
  }
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  // The thread's calls are never returned to: of its stack the emulator takes the part that
  // is left for it.
  const auto top = reinterpret_cast<uintptr_t>(thread->stack_limit) & ~uintptr_t{15};
  registers[REG_RDI] = reinterpret_cast<greg_t>(&trap_of(signal));
  registers[REG_RSI] = registers[REG_RIP];
  if (info->si_addr == reinterpret_cast<void*>(registers[REG_RIP]) && signal == SIGSEGV) {
    // A call of what is no function: its place is the one before the address that it returns to.
    registers[REG_RSI] = *reinterpret_cast<greg_t*>(registers[REG_RSP]) - 1;
  }
  registers[REG_RSP] = static_cast<greg_t>(top - 8);  // as after a call
  registers[REG_RIP] = reinterpret_cast<greg_t>(&end_thread);
}

}  // namespace

TrapGuard::TrapGuard() {
  const std::lock_guard<std::mutex> held(lock);
  if (guards++ > 0) return;
  struct sigaction action{};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (size_t i = 0; i < std::size(SIGNALS); ++i) sigaction(SIGNALS[i], &action, &before[i]);
}

TrapGuard::~TrapGuard() {
  const std::lock_guard<std::mutex> held(lock);
  if (--guards > 0) return;
  for (size_t i = 0; i < std::size(SIGNALS); ++i) sigaction(SIGNALS[i], &before[i], nullptr);
}

}  // namespace smem::cpu_emulator

#else

namespace smem::cpu_emulator {
TrapGuard::TrapGuard() = default;
TrapGuard::~TrapGuard() = default;
}  // namespace smem::cpu_emulator

#endif
