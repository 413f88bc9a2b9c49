#include "gemm/sm80/instances.h"

namespace smem::gemm::sm80 {
inline namespace SMEM_BUILD {

template MmaKernel find_kernel<half>(int, Major, Major);

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::sm80
