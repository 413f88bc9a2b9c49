#include "device/assumed_capability.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace smem {
namespace {

/// The most shared memory that a block can opt in to, from a compute capability on (CUDA C++
/// Programming Guide, "Technical Specifications per Compute Capability").
struct SharedLimit {
  int capability;
  size_t bytes;
};
constexpr size_t KIB = 1024;
constexpr SharedLimit SHARED_LIMITS[] = {{75, 64 * KIB},  {80, 163 * KIB}, {86, 99 * KIB},
                                         {87, 163 * KIB}, {89, 99 * KIB},  {90, 227 * KIB},
                                         {120, 99 * KIB}};

}  // namespace

Device with_capability(Device device, const char* text) {
  constexpr int OLDEST = 75;
  std::string digits;
  for (const char* c = text; *c; ++c) {
    if (*c != '.') digits += *c;
  }
  const bool is_number =
      !digits.empty() && digits.size() <= 3 &&
      std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  const int capability = is_number ? std::stoi(digits) : 0;
  if (capability < OLDEST || capability > device.capability) {
    throw std::runtime_error("smem: SMEM_CAPABILITY is '" + std::string(text) +
                             "', expected a compute capability from 7.5 to the GPU's own, " +
                             std::to_string(device.capability / 10) + "." +
                             std::to_string(device.capability % 10));
  }
  device.capability = capability;
  device.code_capability = std::min(device.code_capability, capability);
  size_t limit = 0;
  for (const SharedLimit& row : SHARED_LIMITS) {
    if (row.capability <= capability) limit = row.bytes;
  }
  device.shared_bytes = std::min(device.shared_bytes, limit);
  return device;
}

}  // namespace smem
