// The choice of a kernel by kernel="auto".
#pragma once

#include "device/dispatch.h"
#include "reduce/reduce.h"

namespace smem::reduce {

/// The kernel for this problem, and the reason. A pure function of the problem.
Choice choose(const Problem& problem);

}  // namespace smem::reduce
