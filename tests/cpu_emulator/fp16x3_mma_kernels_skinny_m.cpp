// As fp16x3_mma_kernels_gemm.cpp, for a small M.
#include "gemm/fp16x3/short_k.h"
#include "gemm/fp16x3/skinny_m.h"
#include "gemm/fp16x3/skinny_m_kernel.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {

bool can_implement_skinny_m(const Problem& problem, const split::SplitOperand& b, bool,
                            const Device&) {
  return problem.M <= 16 && b.k_slices == 1;
}
Problem skinny_m_row_groups(const Problem& problem, const split::SplitOperand&, const Device&) {
  return problem;
}
void launch_skinny_m(const Problem& problem, const split::SplitOperand& a,
                     const split::SplitOperand& b, float* partials, bool, const Device& device) {
  launch_config<SkinnyMConfig<KMajor, M16, LoadA::CP_ASYNC>>(problem, a, b, partials, device);
}

// Not called, as the variant is mma.
bool is_fastest_by_short_k(const Problem&) { return false; }
void launch_short_k(const Problem&, const Device&) {}
bool is_fastest_by_rs(const Problem&, const split::SplitOperand&, const Device&) { return false; }
bool can_implement_skinny_m_hi_lo(const Problem&) { return false; }
void launch_skinny_m_hi_lo(const Problem&, const split::SplitOperand&, const split::SplitOperand&,
                           float*, const Device&) {}

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
