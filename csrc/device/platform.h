// One kernel source, three builds: nvcc compiles it for the GPU, and a C++ compiler compiles it
// twice for cpu_emulator, for speed and with tracing.
//
// The builds instantiate the same templates, so each has its own inline namespace, SMEM_BUILD.
// Otherwise the linker would merge a kernel's host stub with its cpu_emulator functions.
#pragma once

#ifdef __CUDACC__
#include <cuda_runtime.h>
#define SMEM_BUILD device_build
#define SMEM_MAY_ALIAS
#else
#include "cpu_emulator/cuda_language.h"
#define SMEM_MAY_ALIAS [[gnu::may_alias]]
#ifdef SMEM_TRACED
#include "cpu_emulator/trace/language.h"
#define SMEM_BUILD traced_build
#else
#define SMEM_BUILD host_build
#endif
#endif

namespace smem {

/// The three builds; each has its own kernel tables.
enum class Build { device, host, traced };

}  // namespace smem
