// Interruption of a kernel that runs on the CPU.
#pragma once

#include <stdexcept>

namespace smem::cpu_emulator {

/// The run was stopped.
struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("cpu_emulator: interrupted by a signal") {}
};

/// Sets the function that `run` calls occasionally, between two blocks or two turns of a thread, on
/// the thread and the stack that called `run`. Where it returns true, `run` throws Interrupted.
/// Null, the default: `run` never asks.
void set_interrupt_check(bool (*is_interrupted)());

/// Throws Interrupted if the launch whose blocks this operating-system thread runs should stop.
void throw_if_interrupted();

}  // namespace smem::cpu_emulator
