// Queries of the CUDA runtime and driver about a GPU and about compiled kernels.
#include <array>
#include <cstdlib>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "device/assumed_capability.h"
#include "device/device.h"
#include "device/driver.h"

namespace smem {
namespace {

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string("smem: ") + what + " failed: " + cudaGetErrorString(error));
}

/// Whether the error means that this binary has no code of a kernel for the current GPU.
bool lacks_code(cudaError_t error) {
  if (error != cudaErrorNoKernelImageForDevice && error != cudaErrorInvalidDeviceFunction &&
      error != cudaErrorUnsupportedPtxVersion) {
    return false;
  }
  static_cast<void>(cudaGetLastError());  // clears it, or the next query would return it again
  return true;
}

int attribute(cudaDeviceAttr attr, int index) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, attr, index), "reading a device attribute");
  return value;
}

__global__ void empty_kernel() {}

/// The compute capability of the code in this binary that the current GPU runs. The driver reports
/// it for each kernel, whether compiled in advance or from PTX; CUB uses the same query
/// (cub/util_device.cuh, PtxVersion). One kernel is enough, because all sources are compiled for
/// the same list of GPUs.
int current_code_capability() {
  const auto* const kernel = reinterpret_cast<const void*>(empty_kernel);
  cudaFuncAttributes attributes{};
  const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
  if (lacks_code(error)) return 0;
  check(error, "reading a kernel's attributes");
  return attributes.ptxVersion;
}

}  // namespace

bool has_context_of(int index) {
  static const auto context_device = driver_function<decltype(cuCtxGetDevice)>("cuCtxGetDevice");
  CUdevice device{};
  return context_device(&device) == CUDA_SUCCESS && device == index;
}

void make_context_current(int index) {
  static const auto current_context = driver_function<decltype(cuCtxGetCurrent)>("cuCtxGetCurrent");
  CUcontext context = nullptr;
  if (current_context(&context) == CUDA_SUCCESS && context) return;
  check(cudaSetDevice(index), "making a device's context current");
}

Device cuda_device(int index) {
  static std::array<std::once_flag, MAX_DEVICES> once;
  static std::array<Device, MAX_DEVICES> devices;
  std::call_once(once.at(index), [&] {
    devices[index] = {.capability = 10 * attribute(cudaDevAttrComputeCapabilityMajor, index) +
                                    attribute(cudaDevAttrComputeCapabilityMinor, index),
                      .sm_count = attribute(cudaDevAttrMultiProcessorCount, index),
                      .shared_bytes = static_cast<size_t>(
                          attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, index)),
                      .stream = nullptr,
                      .host = false,
                      .code_capability = current_code_capability()};
    if (const char* const assumed = std::getenv("SMEM_CAPABILITY")) {
      devices[index] = with_capability(devices[index], assumed);
    }
  });
  return devices[index];
}

std::optional<KernelResources> cuda_kernel_resources(const void* function) {
  cudaFuncAttributes a{};
  const cudaError_t error = cudaFuncGetAttributes(&a, function);
  if (lacks_code(error) || (error == cudaSuccess && a.maxThreadsPerBlock == 1)) {
    return std::nullopt;  // an empty kernel has a launch bound of 1 (device/target.h)
  }
  check(error, "reading a kernel's attributes");
  return KernelResources{.registers = a.numRegs,
                         .max_threads = a.maxThreadsPerBlock,
                         .shared_bytes = a.sharedSizeBytes,
                         .local_bytes = a.localSizeBytes};
}

cudaError_t set_shared_memory_limit(const void* kernel, bool fits_several) {
  static std::mutex mutex;
  static std::array<std::set<std::pair<const void*, bool>>, MAX_DEVICES> done;
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device)) return error;
  const std::lock_guard lock(mutex);
  if (done.at(device).contains({kernel, fits_several})) return cudaSuccess;
  cudaFuncAttributes attributes{};
  cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
  if (!error) {
    const int bytes = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 bytes - static_cast<int>(attributes.sharedSizeBytes));
  }
  if (!error && fits_several) {
    error = cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                 cudaSharedmemCarveoutMaxShared);
  }
  if (!error) done[device].insert({kernel, fits_several});
  return error;
}

std::vector<int> cuda_active_blocks(const void* function, int max_threads,
                                    size_t dynamic_shared_bytes) {
  if (dynamic_shared_bytes > 0) {
    check(set_shared_memory_limit(function, /*fits_several=*/false), "opting in to shared memory");
  }
  std::vector<int> blocks;
  for (int threads = 1; threads <= max_threads; ++threads) {
    blocks.push_back(0);
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks.back(), function, threads,
                                                        dynamic_shared_bytes),
          "computing a kernel's occupancy");
  }
  return blocks;
}

}  // namespace smem
