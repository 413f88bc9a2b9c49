// The same kernels and the same table, built for host_run.
#include <iterator>

#include "gemm/ladder/double_buffered.cu"
#include "gemm/ladder/naive.cu"
#include "gemm/ladder/panel.cu"
#include "gemm/ladder/register_tiled.cu"
#include "gemm/ladder/tiled.cu"
#include "gemm/ladder/vectorized.cu"

namespace smem::gemm {

KernelTable kernels([[maybe_unused]] bool on_host) {
#ifdef SMEM_WITH_CUDA
  if (!on_host) return device_kernels();
#endif
  return {KERNELS, static_cast<int>(std::size(KERNELS))};
}

}  // namespace smem::gemm
