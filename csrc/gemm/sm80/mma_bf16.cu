#include "gemm/sm80/instances.h"

namespace smem::gemm::sm80::inline SMEM_BUILD {

template MmaKernel<bfloat16> find_kernel<bfloat16>(int, Major, Major);

}  // namespace smem::gemm::sm80::inline SMEM_BUILD
