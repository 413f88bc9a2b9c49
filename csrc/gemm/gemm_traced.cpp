// All kernels but simt, and the kernel table, compiled for the CPU emulator with tracing.
#pragma GCC optimize("O1")  // reduces compile time: bench/NOTES.md
// At -O1, GCC does not see that load_vector sets every lane.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#define SMEM_TRACED

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

KernelTable traced_kernels() { return {KERNELS, static_cast<int>(std::size(KERNELS))}; }

}  // namespace smem::gemm
