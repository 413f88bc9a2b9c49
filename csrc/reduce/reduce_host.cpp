// All kernels but columns, and the kernel table, compiled for the CPU emulator.
#include "reduce/ladder/shuffle.cu"
#include "reduce/ladder/tree.cu"
#include "reduce/rows.cu"
#include "reduce/rows_max.cu"

namespace smem::reduce {

KernelTable host_kernels() { return KERNELS; }

KernelTable kernels(Build build) { return of_build<device_kernels, host_kernels>(build)(); }

}  // namespace smem::reduce
