// The same kernels and the same table, built to be traced.
#pragma GCC optimize("Og")  // for the time that compiling takes: bench/NOTES.md
#define SMEM_TRACED

#include <iterator>

#include "transpose/ladder/naive.cu"
#include "transpose/ladder/swizzled.cu"
#include "transpose/ladder/tiled.cu"
#include "transpose/strided_copy.cu"
#include "transpose/unaligned.cu"
#include "transpose/vectorized.cu"

namespace smem::transpose {

KernelTable traced_kernels() { return {KERNELS, static_cast<int>(std::size(KERNELS))}; }

}  // namespace smem::transpose
