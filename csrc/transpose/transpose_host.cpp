// The same kernels and the same table, built for cpu_emulator.
#include "transpose/ladder/naive.cu"
#include "transpose/ladder/swizzled.cu"
#include "transpose/ladder/tiled.cu"
#include "transpose/strided_copy.cu"
#include "transpose/unaligned.cu"
#include "transpose/vectorized.cu"

namespace smem::transpose {

KernelTable host_kernels() { return KERNELS; }

KernelTable kernels(Build build) { return of_build<device_kernels, host_kernels>(build)(); }

}  // namespace smem::transpose
