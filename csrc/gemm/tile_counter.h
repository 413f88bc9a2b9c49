// The counters of dynamic schedulers (dynamic_scheduler.h).
#pragma once

#include <cstdint>

#include "device/launch.h"

namespace smem::gemm::inline SMEM_BUILD {

/// A product that is expected to take less keeps a static scheduler, unless it has many work tiles:
/// the atomics take 0.3 to 1 us.
constexpr double MIN_DYNAMIC_MICROSECONDS = 100;

/// A counter in the memory of the current GPU for one launch on the device's stream, which is zero
/// then and must be zero again after the launch; null if there is none. Launches of one stream
/// share a counter, because they run one after the other. A launch that is captured gets its own:
/// its graph may run beside the stream. The CPU has none.
uint32_t* tile_counter(const Device& device);

}  // namespace smem::gemm::inline SMEM_BUILD
