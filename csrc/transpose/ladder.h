// The rows of the kernel table, in the order of the ladder; after them what `auto` chooses from. A
// new kernel is a file, in ladder/ or beside it, and its name here, twice.
#pragma once

#include "transpose/transpose.h"

namespace smem::transpose {
inline namespace SMEM_BUILD {

extern const Kernel naive, tiled, padded, swizzled, strided_copy, unaligned, vectorized;

inline constexpr const Kernel* KERNELS[] = {&naive, &tiled,    &padded,    &swizzled,
                                            &strided_copy,  &unaligned, &vectorized};

}  // namespace SMEM_BUILD
}  // namespace smem::transpose
