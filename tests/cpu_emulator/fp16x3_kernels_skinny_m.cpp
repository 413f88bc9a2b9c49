// As fp16x3_kernels_gemm.cpp, for a small M.
#include "gemm/fp16x3/skinny_m.h"
#include "gemm/fp16x3/skinny_m_kernel.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {

bool can_implement_skinny_m(const Problem& problem, const split::SplitOperand&, bool,
                            const Device&) {
  return problem.M <= 16 || problem.M == 60;
}
Problem skinny_m_row_groups(const Problem& problem, const split::SplitOperand&, const Device&) {
  return problem;
}
void launch_skinny_m(const Problem& problem, const split::SplitOperand& a,
                     const split::SplitOperand& b, float* partials, bool, const Device& device) {
  if (problem.M > 13) {
    launch_skinny_m_rs(problem, a, b, device);
  } else if (b.k_stride == 1) {
    launch_config<SkinnyMConfig<KMajor, M16>>(problem, a, b, partials, device);
  } else {
    launch_config<SkinnyMConfig<MnMajorUnaligned, M16>>(problem, a, b, partials, device);
  }
}

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
