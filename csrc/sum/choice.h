// Which kernel `auto` runs.
#pragma once

#include "device/choice.h"
#include "sum/sum.h"

namespace smem::sum {

/// What `auto` runs, and why. A pure function.
Choice choose(const Problem& problem);

}  // namespace smem::sum
