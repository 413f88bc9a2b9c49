// What the processor refuses to do in a kernel is a fault of the kernel's thread.
#pragma once

namespace smem::cpu_emulator {

/// While such an object exists, a division of integers by zero or an access to memory that the
/// process has not got (SIGFPE, SIGSEGV and the like) ends the kernel's thread, with a fault at
/// its line, and not the process. Signals outside kernels are left to whoever had them before.
/// Elsewhere than on x86-64 it does nothing.
class TrapGuard {
 public:
  TrapGuard();
  ~TrapGuard();
  TrapGuard(const TrapGuard&) = delete;
  TrapGuard& operator=(const TrapGuard&) = delete;
};

}  // namespace smem::cpu_emulator
