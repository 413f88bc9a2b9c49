// The same kernels and the same table, compiled for the CPU emulator.

#pragma GCC optimize("Os")  // for the time that compiling takes: bench/NOTES.md

#include <iterator>

#include "reduce/columns.cu"
#include "reduce/columns_max.cu"
#include "reduce/ladder/shuffle.cu"
#include "reduce/ladder/tree.cu"
#include "reduce/rows.cu"
#include "reduce/rows_max.cu"

namespace smem::reduce {

KernelTable host_kernels() { return {KERNELS, static_cast<int>(std::size(KERNELS))}; }

KernelTable kernels(Build build) {
#ifdef SMEM_WITH_CUDA
  if (build == Build::device) return device_kernels();
#endif
  return build == Build::traced ? traced_kernels() : host_kernels();
}

}  // namespace smem::reduce
