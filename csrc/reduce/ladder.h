// The rows of the kernel table: the ladder, each a file in ladder/, then the two kernels between
// which `auto` chooses.
#pragma once

#include "reduce/reduce.h"

namespace smem::reduce {
inline namespace SMEM_BUILD {

extern const Kernel tree, shuffle, rows, columns;

inline constexpr const Kernel* KERNELS[] = {&tree, &shuffle, &rows, &columns};

}  // namespace SMEM_BUILD
}  // namespace smem::reduce
