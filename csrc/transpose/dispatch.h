// Which kernel `auto` runs.
#pragma once

#include "device/dispatch.h"
#include "transpose/transpose.h"

namespace smem::transpose {

/// The kernel that `auto` runs, and why. A pure function; all kernels write the same bits.
Choice choose(const Problem& problem, const Device& device);

}  // namespace smem::transpose
