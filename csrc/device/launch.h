// One call that launches a kernel: on a CUDA stream, or on the CPU under cpu_emulator.
#pragma once

#include <cstdint>

#include "device/platform.h"

#ifdef SMEM_TRACED
#include "cpu_emulator/trace/session.h"
#endif

namespace smem {

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Shared memory a block gets without asking for more.
constexpr size_t DEFAULT_SHARED_BYTES = 48 * 1024;

/// The most blocks a one-dimensional grid can have.
constexpr int64_t MAX_BLOCKS = INT32_MAX;

/// What the device (or, for cpu_emulator, the device it stands for) offers to a launch.
struct Device {
  int capability;       ///< 10 * major + minor
  int sm_count;  ///< SMs
  size_t shared_bytes;  ///< the most shared memory a block may opt in to
  void* stream;         ///< cudaStream_t; not used by cpu_emulator
  bool host = false;    ///< cpu_emulator, which has no tensor cores
  /// What the code was compiled for that the GPU runs of this binary: less than `capability` where
  /// the binary holds code for older GPUs only, 0 where it holds none that this GPU can run.
  int code_capability = capability;

  /// Whether the GPU runs code for sm_90a of this binary: wgmma, TMA, clusters.
  constexpr bool runs_sm90a() const {
    return !host && capability == 90 && code_capability == capability;
  }
};

/// cpu_emulator stands for an H200: capability 9.0, 227 KiB of shared memory a block.
constexpr Device HOST_DEVICE{90, 132, 227 * 1024, nullptr, true};

/// Throw. Apart from what calls them, because <string> would be half of a kernel's front end.
[[noreturn]] void refuse_grid(const char* kernel, int64_t blocks);
[[noreturn]] void refuse_launch(const char* kernel, const char* error, bool lacks_code);

inline namespace SMEM_BUILD {

struct Geometry {
  int64_t blocks;
  dim3 threads;
  size_t dynamic_shared_bytes = 0;
  bool launch_with_pdl = false;  ///< it waits for the kernel before by itself (device/pdl.h)
};

#ifdef __CUDACC__
inline void check_launch(cudaError_t error, const char* kernel) {
  if (error == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // which would tell the next who asks as well
  refuse_launch(
      kernel, cudaGetErrorString(error),
      error == cudaErrorNoKernelImageForDevice || error == cudaErrorUnsupportedPtxVersion);
}
#endif

/// Runs `kernel` over a one-dimensional grid; an empty grid is no work.
template <typename Argument>
void launch(const char* name, void (*kernel)(Argument), const Geometry& geometry,
            const Device& device, const Argument& argument) {
  if (geometry.blocks == 0) return;
  if (geometry.blocks > MAX_BLOCKS) refuse_grid(name, geometry.blocks);
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
  // Code compiled for older GPUs does not wait.
  config.numAttrs = geometry.launch_with_pdl && device.code_capability >= 90 ? 1 : 0;
  check_launch(cudaLaunchKernelEx(&config, kernel, argument), name);
#else
  (void)device;
  const dim3 grid{static_cast<unsigned>(geometry.blocks)};
  const auto body = [&] { kernel(argument); };
#ifdef SMEM_TRACED
  cpu_emulator::trace::run(name, grid, geometry.threads, geometry.dynamic_shared_bytes, body);
#else
  cpu_emulator::run(grid, geometry.threads, geometry.dynamic_shared_bytes, body);
#endif
#endif
}

}  // namespace SMEM_BUILD
}  // namespace smem
