// One call that launches a kernel: on a CUDA stream, or on the CPU under cpu_emulator.
#pragma once

#include <cstdint>

#include "device/platform.h"

#ifndef __CUDACC__
#include "cpu_emulator/launch.h"
#endif

namespace smem {

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

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

inline namespace SMEM_BUILD {

/// The launch configuration: a one-dimensional grid.
struct Geometry {
  int64_t blocks;
  dim3 threads;
  size_t dynamic_shared_bytes = 0;
  /// Programmatic dependent launch: the kernel itself waits for the one before (device/pdl.h).
  bool launch_with_pdl = false;
};

#ifdef __CUDACC__
inline void check_launch(cudaError_t error, const char* kernel) {
  if (error == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // clears it, or the next query would return it again
  throw_launch_failed(
      kernel, cudaGetErrorString(error),
      error == cudaErrorNoKernelImageForDevice || error == cudaErrorUnsupportedPtxVersion);
}
#endif

/// Wraps cudaLaunchKernelEx. An empty grid launches nothing.
template <typename Argument>
void launch(const char* name, void (*kernel)(Argument), const Geometry& geometry,
            const Device& device, const Argument& argument) {
  if (geometry.blocks == 0) return;
  if (geometry.blocks > MAX_BLOCKS) throw_grid_too_large(name, geometry.blocks);
#ifdef __CUDACC__
  if (geometry.dynamic_shared_bytes > DEFAULT_SHARED_BYTES) {
    const auto* function = reinterpret_cast<const void*>(kernel);
    check_launch(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(geometry.dynamic_shared_bytes)),
                 name);
    check_launch(cudaFuncSetAttribute(function, cudaFuncAttributePreferredSharedMemoryCarveout,
                                      cudaSharedmemCarveoutMaxShared),
                 name);
  }
  cudaLaunchAttribute pdl{};
  pdl.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  pdl.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(geometry.blocks));
  config.blockDim = geometry.threads;
  config.dynamicSmemBytes = geometry.dynamic_shared_bytes;
  config.stream = static_cast<cudaStream_t>(device.stream);
  config.attrs = &pdl;
  // Code compiled for older GPUs has no griddepcontrol.wait, so it must not be launched early.
  config.numAttrs = geometry.launch_with_pdl && device.code_capability >= 90 ? 1 : 0;
  check_launch(cudaLaunchKernelEx(&config, kernel, argument), name);
#else
  (void)device;
  cpu_emulator::launch(name, kernel, {static_cast<unsigned>(geometry.blocks)}, geometry.threads,
                       geometry.dynamic_shared_bytes, argument);
#endif
}

}  // namespace SMEM_BUILD
}  // namespace smem
