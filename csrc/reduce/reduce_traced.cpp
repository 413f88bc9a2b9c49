// The same kernels and the same table, compiled for the CPU emulator with tracing.
#pragma GCC optimize("Og")  // for the time that compiling takes: bench/NOTES.md
#define SMEM_TRACED

#include <iterator>

#include "reduce/columns.cu"
#include "reduce/columns_max.cu"
#include "reduce/ladder/shuffle.cu"
#include "reduce/ladder/tree.cu"
#include "reduce/rows.cu"
#include "reduce/rows_max.cu"

namespace smem::reduce {

KernelTable traced_kernels() { return {KERNELS, static_cast<int>(std::size(KERNELS))}; }

}  // namespace smem::reduce
