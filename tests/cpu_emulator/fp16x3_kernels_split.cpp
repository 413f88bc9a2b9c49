// The kernels before and after the product, for fp16x3.cpp and fp16x3_mma.cpp.
#include "gemm/fp16x3/split_k.cu"
#include "gemm/fp16x3/split_k_major.cu"

namespace smem::gemm::fp16x3 {

const split::SplitKernels& split::host_kernels() {
  static constexpr SplitKernels ONLY_K_MAJOR{
      .k_major = &k_major, .mn_major = nullptr, .minmax = nullptr, .mn_major_pass2 = nullptr};
  return ONLY_K_MAJOR;
}

}  // namespace smem::gemm::fp16x3
