// The split kernels, built for cpu_emulator.
#include "gemm/fp16x3/split_k_major.cu"
#include "gemm/fp16x3/split_minmax.cu"
#include "gemm/fp16x3/split_mn_major.cu"
#include "gemm/fp16x3/split_mn_major_two_pass.cu"

namespace smem::gemm::fp16x3::split {

const SplitKernels& host_kernels() { return KERNELS; }

}  // namespace smem::gemm::fp16x3::split
