// The float64 kernels of simt, in their own file to keep compile times short.
#include "gemm/simt/launch.h"

namespace smem::gemm::simt::inline SMEM_BUILD {

template void launch_plan<double>(const Problem&, const SimtPlan&, const Device&);
template const void* large_kernel<double>();

}  // namespace smem::gemm::simt::inline SMEM_BUILD
