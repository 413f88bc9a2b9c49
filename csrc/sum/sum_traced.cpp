// The same kernels and the same table, built to be traced.
#pragma GCC optimize("Og")  // for the time that compiling takes: bench/NOTES.md
#define SMEM_TRACED

#include <iterator>

#include "sum/columns.cu"
#include "sum/columns_max.cu"
#include "sum/ladder/shuffle.cu"
#include "sum/ladder/tree.cu"
#include "sum/rows.cu"
#include "sum/rows_max.cu"

namespace smem::sum {

KernelTable traced_kernels() { return {KERNELS, static_cast<int>(std::size(KERNELS))}; }

}  // namespace smem::sum
