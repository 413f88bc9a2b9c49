// Launches a kernel on the CPU.
#pragma once

#include <cstddef>

#include "cpu_emulator/cuda/emulator_api.h"

namespace smem::cpu_emulator {

using Body = void (*)(void* context);

/// Runs `body(context)` once for every thread of every block; recorded, if a trace is in progress
/// on the calling operating-system thread.
void launch(const char* kernel, dim3 grid, dim3 threads, size_t dynamic_shared_bytes, Body body,
            void* context, unsigned cluster_size = 1);

template <typename Argument>
void launch(const char* name, void (*kernel)(Argument), dim3 grid, dim3 threads,
            size_t dynamic_shared_bytes, const Argument& argument, unsigned cluster_size = 1) {
  struct Call {
    void (*kernel)(Argument);
    const Argument* argument;
  };
  Call call{kernel, &argument};
  const auto body = [](void* context) SMEM_UNSEEN {
    const auto* const given = static_cast<const Call*>(context);
    given->kernel(*given->argument);
  };
  launch(name, grid, threads, dynamic_shared_bytes, body, &call, cluster_size);
}

/// The running block's dynamic shared memory.
__attribute__((const)) void* dynamic_shared();

}  // namespace smem::cpu_emulator
