// What the bindings must know of a GPU. Declared apart so that they need no CUDA header.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "device/launch.h"

namespace smem {

/// Capability, multiprocessors and shared memory of GPU `index`; read once a device.
Device cuda_device(int index);

/// What the compiler made of a kernel, as the driver of the current GPU reports it.
struct KernelResources {
  int registers, max_threads;
  size_t shared_bytes, local_bytes, max_dynamic_shared_bytes;
};
KernelResources cuda_kernel_resources(const void* function);

}  // namespace smem
