// The same kernels and the same table, built for host_run.

#pragma GCC optimize("Os")  // for the time that compiling takes: bench/NOTES.md

#include <iterator>

#include "sum/columns.cu"
#include "sum/columns_max.cu"
#include "sum/ladder/shuffle.cu"
#include "sum/ladder/tree.cu"
#include "sum/rows.cu"
#include "sum/rows_max.cu"

namespace smem::sum {

KernelTable host_kernels() { return {KERNELS, static_cast<int>(std::size(KERNELS))}; }

KernelTable kernels(Build build) {
#ifdef SMEM_WITH_CUDA
  if (build == Build::device) return device_kernels();
#endif
  return build == Build::traced ? traced_kernels() : host_kernels();
}

}  // namespace smem::sum
