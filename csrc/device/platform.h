// One kernel source, two builds: nvcc compiles it for the GPU, a plain C++ compiler for host_run.
//
// The two builds instantiate the same templates, so each lives in an inline namespace of its own:
// without it the linker would merge a kernel's host stub with its host_run function.
#pragma once

#ifdef __CUDACC__
#include <cuda_runtime.h>
#define SMEM_BUILD device_build
#define SMEM_MAY_ALIAS
#else
#include "host_run/cuda_language.h"
#define SMEM_BUILD host_build
#define SMEM_MAY_ALIAS [[gnu::may_alias]]
#endif
