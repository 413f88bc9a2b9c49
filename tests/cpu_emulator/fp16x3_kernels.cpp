// The fp16x3 kernels that fp16x3.cpp runs; tests/test_fp16x3_mutants.py compiles mutants of them.
#include "gemm/fp16x3/gemm.cu"
#include "gemm/fp16x3/skinny_m.h"
#include "gemm/fp16x3/skinny_m_kernel.h"
#include "gemm/fp16x3/split_k.cu"
#include "gemm/fp16x3/split_k_major.cu"

namespace smem::gemm::fp16x3 {
inline namespace SMEM_BUILD {

bool can_implement_skinny_m(const Problem& problem, const split::SplitOperand&) {
  return problem.M <= 16;
}
void launch_skinny_m(const Problem& problem, const split::SplitOperand& a,
                     const split::SplitOperand& b, float* partials, const Device& device) {
  launch_config<SkinnyMConfig<KMajor, M16>>(problem, a, b, partials, device);
}

}  // namespace SMEM_BUILD

const split::SplitKernels& split::host_kernels() {
  static constexpr SplitKernels ONLY_K_MAJOR{
      .k_major = &k_major, .mn_major = nullptr, .minmax = nullptr, .mn_major_pass2 = nullptr};
  return ONLY_K_MAJOR;
}

}  // namespace smem::gemm::fp16x3
