// The same kernels and the same table, built for cpu_emulator.
#include <iterator>

#include "transpose/ladder/naive.cu"
#include "transpose/ladder/swizzled.cu"
#include "transpose/ladder/tiled.cu"
#include "transpose/strided_copy.cu"
#include "transpose/unaligned.cu"
#include "transpose/vectorized.cu"

namespace smem::transpose {

KernelTable host_kernels() { return {KERNELS, static_cast<int>(std::size(KERNELS))}; }

KernelTable kernels([[maybe_unused]] Build build) {
#ifdef SMEM_WITH_CUDA
  if (build == Build::device) return device_kernels();
#endif
  return host_kernels();
}

}  // namespace smem::transpose
