// simt for float64.
#include "gemm/lanes/launch.h"

namespace smem::gemm::lanes {
inline namespace SMEM_BUILD {

template void launch_plan<double>(const Problem&, const Plan&, const Device&);
template const void* large_kernel<double>();

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::lanes
