// The kernel table of the CUDA build.
#include <iterator>

#include "gemm/ladder.h"

namespace smem::gemm {

KernelTable device_kernels() { return {KERNELS, static_cast<int>(std::size(KERNELS))}; }

}  // namespace smem::gemm
