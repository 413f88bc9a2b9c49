// The kernels of the CUDA build.
#include "gemm/split/kernels.h"

namespace smem::gemm::split {

const Kernels& device_kernels() { return KERNELS; }

}  // namespace smem::gemm::split
