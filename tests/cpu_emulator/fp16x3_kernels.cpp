// The fp16x3 kernels that fp16x3.cpp runs; tests/test_fp16x3_mutants.py compiles mutants of them.
#include "fp16x3_shared_kernels.h"
#include "gemm/fp16x3/gemm.cu"
#include "gemm/fp16x3/gemm_sm80.h"
#include "gemm/fp16x3/skinny_m.h"
#include "gemm/fp16x3/skinny_m_kernel.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {

bool can_implement_skinny_m(const Problem& problem, const split::SplitOperand&, bool,
                            const Device&) {
  return problem.M <= 16;
}
void launch_skinny_m(const Problem& problem, const split::SplitOperand& a,
                     const split::SplitOperand& b, float* partials, bool, const Device& device) {
  launch_config<SkinnyMConfig<KMajor, M16>>(problem, a, b, partials, device);
}
bool can_implement_skinny_m_hi_lo(const Problem& problem) { return problem.M <= 16; }
void launch_skinny_m_hi_lo(const Problem& problem, const split::SplitOperand& a,
                           const split::SplitOperand& b, float* partials, const Device& device) {
  launch_config<SkinnyMConfig<HiLoLayout, HI_LO_M16_WIDE>>(problem, a, b, partials, device);
}

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD

// Not called, as the variant is wgmma.
namespace smem::gemm::fp16x3::mma::inline SMEM_BUILD {

void launch_gemm(const Problem&, const split::SplitOperand&, const split::SplitOperand&, float*,
                 const Device&) {}
TileChoice choose_tile(const Problem&, int64_t, const Device&) { return {}; }
double expected_ns(const Problem&, const split::SplitOperand&, const split::SplitOperand&,
                   const Device&) {
  return 0;
}

}  // namespace smem::gemm::fp16x3::mma::inline SMEM_BUILD
