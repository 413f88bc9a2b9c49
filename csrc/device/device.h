// What the bindings must know of a GPU. Declared apart so that they need no CUDA header.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "device/launch.h"

namespace smem {

/// As many GPUs as a process may see, for what is kept once per GPU.
constexpr int MAX_DEVICES = 64;

/// Makes the context of GPU `index` current for the calling thread, which may not have used a GPU
/// before. `index` is the runtime's current device, but a thread that only inherited that device
/// has no context, and calls of the driver, such as those that encode tensor maps, need one.
void make_context_current(int index);

/// Capability, SMs and shared memory of GPU `index`, and what this binary holds for it;
/// read once per device, with the device's context current.
Device cuda_device(int index);

/// What the compiler made of a kernel, as the driver of the current GPU reports it.
struct KernelResources {
  int registers, max_threads;
  size_t shared_bytes, local_bytes, max_dynamic_shared_bytes;
};
/// None of a kernel that this build holds no code of for that GPU.
std::optional<KernelResources> cuda_kernel_resources(const void* function);

/// For block sizes 1 to `max_threads`: how many blocks of the kernel an SM of the
/// current GPU holds at once, as the driver computes it.
std::vector<int> cuda_active_blocks(const void* function, int max_threads,
                                    size_t dynamic_shared_bytes);

}  // namespace smem
