// The kernel table of the CUDA build.
#include "gemm/ladder.h"

namespace smem::gemm {

KernelTable device_kernels() { return KERNELS; }

}  // namespace smem::gemm
