// The kernel table, and the kernels that have no such file of their own, compiled for the CPU
// emulator.
#include <iterator>

#include "gemm/fp16x3/fp16x3.cu"
#include "gemm/ladder/double_buffered.cu"
#include "gemm/ladder/naive.cu"
#include "gemm/ladder/panel.cu"
#include "gemm/ladder/register_tiled.cu"
#include "gemm/ladder/tiled.cu"
#include "gemm/ladder/vectorized.cu"
#include "gemm/sm90/wgmma.cu"

namespace smem::gemm {

KernelTable host_kernels() { return {KERNELS, static_cast<int>(std::size(KERNELS))}; }

KernelTable kernels([[maybe_unused]] Build build) {
#ifdef SMEM_WITH_CUDA
  if (build == Build::device) return device_kernels();
#endif
  return host_kernels();
}

}  // namespace smem::gemm
