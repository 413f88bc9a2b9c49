// Functions of the CUDA driver. They are asked for at run time: the extension must load where there
// is no driver.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

namespace smem {

/// The driver's function of that name, as CUDA 12.0 defines it; `Function` is its type.
template <typename Function>
Function* driver_function(const char* name) {
  constexpr unsigned CUDA_VERSION_ASKED = 12000;
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result{};
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &function, CUDA_VERSION_ASKED,
                                                             cudaEnableDefault, &result);
  if (error != cudaSuccess || result != cudaDriverEntryPointSuccess || !function) {
    throw std::runtime_error(std::string("smem: this GPU driver has no ") + name);
  }
  return reinterpret_cast<Function*>(function);
}

}  // namespace smem
