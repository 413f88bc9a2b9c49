// The split kernels, built to be traced.
#pragma GCC optimize("Og")  // to compile faster: bench/NOTES.md
#define SMEM_TRACED

#include "gemm/fp16x3/split_k_major.cu"
#include "gemm/fp16x3/split_minmax.cu"
#include "gemm/fp16x3/split_mn_major.cu"
#include "gemm/fp16x3/split_mn_major_two_pass.cu"

namespace smem::gemm::fp16x3::split {

const SplitKernels& traced_kernels() { return KERNELS; }

}  // namespace smem::gemm::fp16x3::split
