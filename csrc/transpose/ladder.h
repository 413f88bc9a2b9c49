// The rows of the kernel table, in the order of the ladder. A new kernel is a file in ladder/ and
// its name here, twice.
#pragma once

#include "transpose/transpose.h"

namespace smem::transpose {
inline namespace SMEM_BUILD {

extern const Kernel naive, tiled, padded;

inline constexpr const Kernel* KERNELS[] = {&naive, &tiled, &padded};

}  // namespace SMEM_BUILD
}  // namespace smem::transpose
