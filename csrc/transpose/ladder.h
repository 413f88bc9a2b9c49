// The rows of the kernel table: first the ladder, from the simplest kernel up, then the kernels
// that `auto` chooses from. To add a kernel, write its file, in ladder/ or beside it, and add its
// name to both lists below.
#pragma once

#include "transpose/transpose.h"

namespace smem::transpose::inline SMEM_BUILD {

extern const Kernel naive, tiled, padded, swizzled, strided_copy, unaligned, vectorized;

inline constexpr const Kernel* KERNELS[] = {&naive,        &tiled,     &padded,    &swizzled,
                                            &strided_copy, &unaligned, &vectorized};

}  // namespace smem::transpose::inline SMEM_BUILD
