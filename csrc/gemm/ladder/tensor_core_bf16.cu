// The bfloat16 kernels of tensor_core, in their own file to keep compile times short.
#include "gemm/ladder/tensor_core.h"

namespace smem::gemm::inline SMEM_BUILD {

template void launch_tensor_core<bfloat16>(const Problem&, const Device&);
template const void* tensor_core_function<bfloat16>();

}  // namespace smem::gemm::inline SMEM_BUILD
