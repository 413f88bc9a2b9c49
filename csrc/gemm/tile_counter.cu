#include <array>
#include <atomic>
#include <mutex>
#include <unordered_map>

#include "device/device.h"
#include "gemm/tile_counter.h"

namespace smem::gemm::inline SMEM_BUILD {
namespace {

// 1 MB. A process that uses more streams and captures more launches goes on without.
constexpr uint32_t COUNTERS = 1 << 18;

__device__ uint32_t counters[COUNTERS];

/// The array on the current GPU; null if it cannot be had now.
uint32_t* counters_of_current_device() {
  static std::array<std::atomic<uint32_t*>, MAX_DEVICES> addresses;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return nullptr;
  uint32_t* address = addresses.at(device).load(std::memory_order_acquire);
  if (!address) {
    void* symbol = nullptr;
    if (cudaGetSymbolAddress(&symbol, counters) != cudaSuccess) return nullptr;
    address = static_cast<uint32_t*>(symbol);
    addresses[device].store(address, std::memory_order_release);
  }
  return address;
}

/// A number below COUNTERS that no other launch gets, or COUNTERS.
uint32_t unused_counter() {
  static std::atomic<uint32_t> next{0};
  uint32_t number = next.load(std::memory_order_relaxed);
  while (number < COUNTERS && !next.compare_exchange_weak(number, number + 1)) {
  }
  return number;
}

/// The number of the stream's counter, the same for all its launches.
uint32_t counter_of_stream(unsigned long long stream_id) {
  static std::mutex mutex;
  static std::unordered_map<unsigned long long, uint32_t> numbers;
  const std::scoped_lock lock(mutex);
  const auto found = numbers.find(stream_id);
  if (found != numbers.end()) return found->second;
  const uint32_t number = unused_counter();
  if (number < COUNTERS) numbers.emplace(stream_id, number);
  return number;
}

}  // namespace

uint32_t* tile_counter(const Device& device) {
  auto* const stream = static_cast<cudaStream_t>(device.stream);
  cudaStreamCaptureStatus status{};
  unsigned long long stream_id = 0;
  uint32_t* const array = counters_of_current_device();
  if (array && cudaStreamIsCapturing(stream, &status) == cudaSuccess) {
    uint32_t number = COUNTERS;
    if (status != cudaStreamCaptureStatusNone) {
      number = unused_counter();
    } else if (cudaStreamGetId(stream, &stream_id) == cudaSuccess) {
      number = counter_of_stream(stream_id);
    }
    if (number < COUNTERS) return array + number;
  }
  static_cast<void>(cudaGetLastError());  // clears it: the launch does without a counter
  return nullptr;
}

}  // namespace smem::gemm::inline SMEM_BUILD
