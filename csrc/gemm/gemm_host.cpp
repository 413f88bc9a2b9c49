// The kernel table, and the kernels that have no such file of their own, compiled for the CPU
// emulator.
#include "gemm/fp16x3/fp16x3.cu"
#include "gemm/ladder/double_buffered.cu"
#include "gemm/ladder/naive.cu"
#include "gemm/ladder/panel.cu"
#include "gemm/ladder/register_tiled.cu"
#include "gemm/ladder/tiled.cu"
#include "gemm/ladder/vectorized.cu"
#include "gemm/sm90/wgmma.cu"

namespace smem::gemm {

KernelTable host_kernels() { return KERNELS; }

KernelTable kernels(Build build) { return of_build<device_kernels, host_kernels>(build)(); }

}  // namespace smem::gemm
