// The same kernels and the same table, built for host_run.
#include <iterator>

#include "transpose/ladder/naive.cu"
#include "transpose/ladder/tiled.cu"

namespace smem::transpose {

KernelTable kernels([[maybe_unused]] bool on_host) {
#ifdef SMEM_WITH_CUDA
  if (!on_host) return device_kernels();
#endif
  return {KERNELS, static_cast<int>(std::size(KERNELS))};
}

}  // namespace smem::transpose
