// The float32 kernels of tensor_core, rounded to tf32, in their own file to keep compile times
// short.
#include "gemm/ladder/tensor_core.h"

namespace smem::gemm::inline SMEM_BUILD {

template void launch_tensor_core<float>(const Problem&, const Device&);
template const void* tensor_core_function<float>();

}  // namespace smem::gemm::inline SMEM_BUILD
