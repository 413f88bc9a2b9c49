// tensor_core for float32 rounded to tf32: a file of its own, so that none takes long to compile.
#include "gemm/ladder/tensor_core.h"

namespace smem::gemm {
inline namespace SMEM_BUILD {

template void launch_tensor_core<float>(const Problem&, const Device&);
template const void* tensor_core_function<float>();

}  // namespace SMEM_BUILD
}  // namespace smem::gemm
