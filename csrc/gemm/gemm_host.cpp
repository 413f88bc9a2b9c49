// All kernels but simt, and the kernel table, compiled for the CPU emulator.

#pragma GCC optimize("O1")  // reduces compile time: bench/NOTES.md

#include <iterator>

#include "gemm/fp16x3/fp16x3.cu"
#include "gemm/ladder/double_buffered.cu"
#include "gemm/ladder/naive.cu"
#include "gemm/ladder/panel.cu"
#include "gemm/ladder/register_tiled.cu"
#include "gemm/ladder/tensor_core.cu"
#include "gemm/ladder/tiled.cu"
#include "gemm/ladder/vectorized.cu"
#include "gemm/sm90/wgmma.cu"

namespace smem::gemm {

KernelTable host_kernels() { return {KERNELS, static_cast<int>(std::size(KERNELS))}; }

KernelTable kernels(Build build) {
#ifdef SMEM_WITH_CUDA
  if (build == Build::device) return device_kernels();
#endif
  return build == Build::traced ? traced_kernels() : host_kernels();
}

}  // namespace smem::gemm
