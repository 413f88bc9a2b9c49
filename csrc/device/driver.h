// Functions of the CUDA driver, looked up at run time, because the extension must also load on a
// machine without a driver.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

namespace smem {

/// Wraps cudaGetDriverEntryPointByVersion: the driver's function `name`, of type `Function`, in its
/// CUDA 12.0 version.
template <typename Function>
Function* driver_function(const char* name) {
  constexpr unsigned CUDA_VERSION_REQUESTED = 12000;
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result{};
  const cudaError_t error = cudaGetDriverEntryPointByVersion(
      name, &function, CUDA_VERSION_REQUESTED, cudaEnableDefault, &result);
  if (error != cudaSuccess || result != cudaDriverEntryPointSuccess || !function) {
    throw std::runtime_error(std::string("smem: this GPU driver has no ") + name);
  }
  return reinterpret_cast<Function*>(function);
}

}  // namespace smem
