// One call that launches a kernel: on a CUDA stream, or on the CPU under cpu_emulator.
#pragma once

#include <cstdint>

#include "device/platform.h"

#ifndef __CUDACC__
#include "cpu_emulator/launch.h"
#endif

namespace smem {

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t value, int64_t unit) { return ceil_div(value, unit) * unit; }

/// The dynamic shared memory that a block can have without opting in to more.
constexpr size_t DEFAULT_SHARED_BYTES = 48 * 1024;

/// The most blocks that a one-dimensional grid can have.
constexpr int64_t MAX_BLOCKS = INT32_MAX;

/// The properties of a device that launches and heuristics depend on. For cpu_emulator: those of
/// the GPU that it emulates.
struct Device {
  int capability;  ///< 10 * major + minor
  int sm_count;
  size_t shared_bytes;  ///< the most shared memory that a block can opt in to
  void* stream;         ///< cudaStream_t; not used by cpu_emulator
  bool host = false;    ///< cpu_emulator
  /// The capability that the code was compiled for which this GPU runs. It is less than
  /// `capability` if the binary has code for older GPUs only, and 0 if it has no code that this GPU
  /// can run.
  int code_capability = capability;

  /// The build whose kernels run there.
  constexpr Build build() const { return host ? Build::host : Build::device; }
  /// Whether the GPU runs this binary's code for sm_90a: wgmma, TMA, clusters.
  constexpr bool runs_sm90a() const {
    return !host && capability == 90 && code_capability == capability;
  }
};

/// cpu_emulator emulates an H200: capability 9.0, 132 SMs, 227 KiB of shared memory per block.
constexpr Device HOST_DEVICE{
    .capability = 90, .sm_count = 132, .shared_bytes = 227 * 1024, .stream = nullptr, .host = true};

/// These throw. They are defined in launch.cpp, because including <string> here would double the
/// time that the compiler's front end takes for a kernel.
[[noreturn]] void throw_grid_too_large(const char* kernel, int64_t blocks);
[[noreturn]] void throw_launch_failed(const char* kernel, const char* error, bool lacks_code);

#ifdef __CUDACC__
/// Sets the limit of the kernel's dynamic shared memory to the most that the current GPU allows,
/// once per kernel and GPU (device.cu): a limit of each launch's own size would be lowered under a
/// thread that is about to launch the kernel with more. `fits_several`: also prefers shared memory
/// to L1 cache.
cudaError_t set_shared_memory_limit(const void* kernel, bool fits_several);
#endif

inline namespace SMEM_BUILD {

/// The launch configuration: a one-dimensional grid.
struct Geometry {
  int64_t blocks;
  dim3 threads;
  size_t dynamic_shared_bytes = 0;
  /// Programmatic dependent launch: the kernel itself waits for the one before (device/pdl.h).
  bool launch_with_pdl = false;
  unsigned cluster_size = 1;  ///< blocks per cluster
};

#ifdef __CUDACC__
inline void check_launch(cudaError_t error, const char* kernel) {
  if (error == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // clears it, or the next query would return it again
  throw_launch_failed(
      kernel, cudaGetErrorString(error),
      error == cudaErrorNoKernelImageForDevice || error == cudaErrorUnsupportedPtxVersion);
}

/// Lets a block of the kernel have as much shared memory as the GPU allows. `fits_several`: several
/// blocks fit on an SM, if all of its memory is shared memory.
inline void opt_in_to_shared_memory(const char* name, const void* kernel, bool fits_several) {
  check_launch(set_shared_memory_limit(kernel, fits_several), name);
}

/// Wraps cudaLaunchKernelExC. `argument` points to the kernel's only parameter.
inline void launch_kernel(const char* name, const void* kernel, const Geometry& geometry,
                          const Device& device, const void* argument) {
  cudaLaunchAttribute attributes[2]{};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(geometry.blocks));
  config.blockDim = geometry.threads;
  config.dynamicSmemBytes = geometry.dynamic_shared_bytes;
  config.stream = static_cast<cudaStream_t>(device.stream);
  config.attrs = attributes;
  // Code compiled for older GPUs has no griddepcontrol.wait, so it must not be launched early.
  if (geometry.launch_with_pdl && device.code_capability >= 90) {
    cudaLaunchAttribute& pdl = attributes[config.numAttrs++];
    pdl.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    pdl.val.programmaticStreamSerializationAllowed = 1;
  }
  if (geometry.cluster_size > 1) {
    cudaLaunchAttribute& cluster = attributes[config.numAttrs++];
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {geometry.cluster_size, 1, 1};
  }
  void* arguments[] = {const_cast<void*>(argument)};
  check_launch(cudaLaunchKernelExC(&config, kernel, arguments), name);
}
#endif

/// Launches a kernel. An empty grid launches nothing.
template <typename Argument>
void launch(const char* name, void (*kernel)(Argument), const Geometry& geometry,
            const Device& device, const Argument& argument) {
  if (geometry.blocks == 0) return;
  if (geometry.blocks > MAX_BLOCKS) throw_grid_too_large(name, geometry.blocks);
#ifdef __CUDACC__
  const auto* const function = reinterpret_cast<const void*>(kernel);
  if (geometry.dynamic_shared_bytes > DEFAULT_SHARED_BYTES) {
    opt_in_to_shared_memory(name, function, /*fits_several=*/true);
  }
  launch_kernel(name, function, geometry, device, &argument);
#else
  (void)device;
  cpu_emulator::launch(name, kernel, {static_cast<unsigned>(geometry.blocks)}, geometry.threads,
                       geometry.dynamic_shared_bytes, argument, geometry.cluster_size);
#endif
}

}  // namespace SMEM_BUILD
}  // namespace smem
