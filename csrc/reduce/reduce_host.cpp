// All kernels but columns, and the kernel table, compiled for the CPU emulator.
#include <iterator>

#include "reduce/ladder/shuffle.cu"
#include "reduce/ladder/tree.cu"
#include "reduce/rows.cu"
#include "reduce/rows_max.cu"

namespace smem::reduce {

KernelTable host_kernels() { return {KERNELS, static_cast<int>(std::size(KERNELS))}; }

KernelTable kernels([[maybe_unused]] Build build) {
#ifdef SMEM_WITH_CUDA
  if (build == Build::device) return device_kernels();
#endif
  return host_kernels();
}

}  // namespace smem::reduce
