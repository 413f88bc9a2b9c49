// The rows of the kernel table: the ladder's kernels, each in a file of ladder/, and the two
// kernels from which `auto` chooses.
#pragma once

#include "reduce/reduce.h"

namespace smem::reduce::inline SMEM_BUILD {

extern const Kernel tree, shuffle, rows, columns;

inline constexpr const Kernel* KERNELS[] = {&tree, &shuffle, &rows, &columns};

}  // namespace smem::reduce::inline SMEM_BUILD
