#include <array>
#include <mutex>
#include <stdexcept>
#include <string>

#include "device/device.h"

namespace smem {
namespace {

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string("smem: ") + what + " failed: " + cudaGetErrorString(error));
}

int attribute(cudaDeviceAttr attr, int index) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, attr, index), "reading a device attribute");
  return value;
}

}  // namespace

Device cuda_device(int index) {
  constexpr int MAX_DEVICES = 64;
  static std::array<std::once_flag, MAX_DEVICES> once;
  static std::array<Device, MAX_DEVICES> devices;
  std::call_once(once.at(index), [&] {
    devices[index] = {
        10 * attribute(cudaDevAttrComputeCapabilityMajor, index) +
            attribute(cudaDevAttrComputeCapabilityMinor, index),
        attribute(cudaDevAttrMultiProcessorCount, index),
        static_cast<size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, index)), nullptr};
  });
  return devices[index];
}

std::optional<KernelResources> cuda_kernel_resources(const void* function) {
  cudaFuncAttributes a{};
  const cudaError_t error = cudaFuncGetAttributes(&a, function);
  if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction) {
    static_cast<void>(cudaGetLastError());
    return std::nullopt;
  }
  check(error, "reading a kernel's attributes");
  return KernelResources{a.numRegs, a.maxThreadsPerBlock, a.sharedSizeBytes, a.localSizeBytes,
                         static_cast<size_t>(a.maxDynamicSharedSizeBytes)};
}

std::vector<int> cuda_active_blocks(const void* function, int max_threads,
                                    size_t dynamic_shared_bytes) {
  if (dynamic_shared_bytes > 0) {
    check(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(dynamic_shared_bytes)),
          "opting in to shared memory");
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
