// tensor_core for bfloat16: a file of its own, so that none takes long to compile.
#include "gemm/ladder/tensor_core.h"

namespace smem::gemm {
inline namespace SMEM_BUILD {

template void launch_tensor_core<bfloat16>(const Problem&, const Device&);
template const void* tensor_core_function<bfloat16>();

}  // namespace SMEM_BUILD
}  // namespace smem::gemm
