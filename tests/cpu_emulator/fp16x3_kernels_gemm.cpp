// The product kernel that fp16x3.cpp runs; tests/test_fp16x3_mutants.py compiles mutants of it.
#include "gemm/fp16x3/gemm.cu"
#include "gemm/fp16x3/gemm_sm80.h"

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
