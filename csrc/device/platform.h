// One kernel source, two builds: nvcc compiles it for the GPU, and a C++ compiler for cpu_emulator.
//
// The builds instantiate the same templates, so each has its own inline namespace, SMEM_BUILD.
// Otherwise the linker would merge a kernel's host stub with its cpu_emulator functions.
#pragma once

#ifdef __CUDACC__
#include <cuda_runtime.h>
#define SMEM_BUILD device_build
#define SMEM_MAY_ALIAS
#else
#include "cpu_emulator/cuda/atomic_functions.h"
#include "cpu_emulator/cuda/conversion_functions.h"
#include "cpu_emulator/cuda/cuda_language.h"
#include "cpu_emulator/cuda/integer_functions.h"
#include "cpu_emulator/cuda/warp_functions.h"
// As nvcc does it: then the place of an access is known by the functions that it is inlined into.
#undef __forceinline__
#define __forceinline__ inline __attribute__((always_inline))
// Headers of the C++ library have it as an attribute's name.
#undef __noinline__
#define __noinline__
#define SMEM_BUILD host_build
#define SMEM_MAY_ALIAS [[gnu::may_alias]]
#endif

namespace smem {

/// The two builds; each has its own kernel tables.
enum class Build { device, host };

/// The one of two values, or functions, that belongs to a build. Without CUDA there is none for the
/// device.
template <auto DEVICE, auto HOST>
constexpr auto of_build([[maybe_unused]] Build build) {
#ifdef SMEM_WITH_CUDA
  if (build == Build::device) return DEVICE;
#endif
  return HOST;
}

}  // namespace smem
