// Which kernel `auto` runs.
#pragma once

#include "device/dispatch.h"
#include "reduce/reduce.h"

namespace smem::reduce {

/// What `auto` runs, and why. A pure function.
Choice choose(const Problem& problem);

}  // namespace smem::reduce
