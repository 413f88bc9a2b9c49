// As fp16x3_kernels_gemm.cpp, for a small M and a kept split of B.
#include "gemm/fp16x3/skinny_m.h"
#include "gemm/fp16x3/skinny_m_kernel.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {

bool can_implement_skinny_m_hi_lo(const Problem& problem) { return problem.M <= 16; }
void launch_skinny_m_hi_lo(const Problem& problem, const split::SplitOperand& a,
                           const split::SplitOperand& b, float* partials, const Device& device) {
  launch_config<SkinnyMConfig<HiLoLayout, HI_LO_M16_WIDE>>(problem, a, b, partials, device);
}

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
