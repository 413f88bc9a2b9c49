#include "gemm/sm80/instances.h"

namespace smem::gemm::sm80::inline SMEM_BUILD {

template MmaKernel<half> find_kernel<half>(int, Major, Major);

}  // namespace smem::gemm::sm80::inline SMEM_BUILD
