// The product kernel that fp16x3_mma.cpp runs; tests/test_fp16x3_mutants.py compiles mutants of it.
#include "gemm/fp16x3/gemm.h"
#include "gemm/fp16x3/gemm_sm80.cu"

// Not called, as the variant is mma.
namespace smem::gemm::fp16x3::inline SMEM_BUILD {

void launch_gemm(const Problem&, const split::SplitOperand&, const split::SplitOperand&, float*,
                 const Device&) {}

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
