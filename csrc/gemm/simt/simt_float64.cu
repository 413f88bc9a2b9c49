// The float64 kernels of simt, in their own file to keep compile times short.
#include "gemm/simt/launch.h"

namespace smem::gemm::simt {
inline namespace SMEM_BUILD {

template void launch_plan<double>(const Problem&, const SimtPlan&, const Device&);
template const void* large_kernel<double>();

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::simt
