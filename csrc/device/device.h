// What the bindings need to know about a GPU. This header includes no CUDA header, so the bindings
// also compile without CUDA.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "device/launch.h"

namespace smem {

/// The most GPUs that a process can use: the size of tables with an entry per GPU.
constexpr int MAX_DEVICES = 64;

/// Whether the calling thread's current context is one of GPU `index`.
bool has_context_of(int index);

/// Makes the context of GPU `index`, the runtime's current device, current for the calling thread.
/// A thread that has not used a GPU yet has a current device but no context, and driver functions
/// such as cuTensorMapEncodeTiled need one.
void make_context_current(int index);

/// The compute capability, SMs and shared memory of GPU `index`, and the capability of the code
/// that this binary has for it; those of the GPU that SMEM_CAPABILITY names, if it is set. Read
/// once per device; the device's context must be current.
Device cuda_device(int index);

/// The resources of a compiled kernel, as the driver of the current GPU reports them.
struct KernelResources {
  int registers, max_threads;
  size_t shared_bytes, local_bytes;
};
/// Returns nothing if this build has no code of the kernel for the current GPU.
std::optional<KernelResources> cuda_kernel_resources(const void* function);

/// For block sizes from 1 to `max_threads`: how many blocks of the kernel are resident on an SM of
/// the current GPU at once, by cudaOccupancyMaxActiveBlocksPerMultiprocessor.
std::vector<int> cuda_active_blocks(const void* function, int max_threads,
                                    size_t dynamic_shared_bytes);

}  // namespace smem
