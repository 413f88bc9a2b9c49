// The split kernels of the CUDA build.
#include "gemm/fp16x3/split_kernels.h"

namespace smem::gemm::fp16x3::split {

const SplitKernels& device_kernels() { return KERNELS; }

}  // namespace smem::gemm::fp16x3::split
