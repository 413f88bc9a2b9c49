// The rows of the kernel table, in the order of the ladder. A new kernel is a file in ladder/ and
// its name here, twice.
#pragma once

#include "sum/sum.h"

namespace smem::sum {
inline namespace SMEM_BUILD {

extern const Kernel tree, shuffle;

inline constexpr const Kernel* KERNELS[] = {&tree, &shuffle};

}  // namespace SMEM_BUILD
}  // namespace smem::sum
