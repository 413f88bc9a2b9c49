// One kernel source, three builds: nvcc compiles it for the GPU; a plain C++ compiler for cpu_emulator,
// once to be fast and once to be traced.
//
// The builds instantiate the same templates, so each lives in an inline namespace of its own:
// without it the linker would merge a kernel's host stub with its cpu_emulator functions.
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

/// Which of the three a kernel table belongs to.
enum class Build { device, host, traced };

}  // namespace smem
