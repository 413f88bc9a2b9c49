// What Python can ask about the kernels and the build. All results are JSON.
#pragma once

#include <cstdint>
#include <string>

#include "device/launch.h"

namespace smem::bindings {

/// Every kernel of every op: name, summary, requirements, dtypes, variants.
std::string kernel_table();

/// What the binary was built with and for.
std::string build_info();

/// The name of each kernel's function, for each dtype or element size.
std::string kernel_symbols();

/// Capability, SMs, shared memory per block in bytes, and capability of the code, as a list.
std::string chip_of(const Device& device);

/// The chip of GPU `index`, which is the current one (device/device.h). Zeros without CUDA.
std::string chip_at(int64_t index);

/// Registers, shared and local memory of every kernel on the current GPU.
std::string kernel_resources();

/// For block sizes from 1 to `max_threads`, how many blocks of a kernel are resident on an SM of
/// the current GPU. `op` is 0 for gemm, 1 for transpose, 2 for sum; `kernel` is an index in its
/// table; `key` is a dtype code, or the element size for transpose.
std::string active_blocks(int64_t op, int64_t kernel, int64_t key, int64_t max_threads,
                          int64_t dynamic_shared_bytes);

}  // namespace smem::bindings
