#include "gemm/sm80/instances.h"

namespace smem::gemm::sm80::inline SMEM_BUILD {

template MmaKernel<float> find_kernel<float>(int, Major, Major);

}  // namespace smem::gemm::sm80::inline SMEM_BUILD
