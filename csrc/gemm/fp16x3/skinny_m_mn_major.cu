// The kernels of skinny_m_kernel.h for a B that lies across K: a file of their own, so that none
// takes long to compile.
#include "gemm/fp16x3/skinny_m_kernel.h"

namespace smem::gemm::fp16x3 {
inline namespace SMEM_BUILD {

template void multiply_few<AcrossK>(const Problem&, const split::Split&, const split::Split&,
                                    float*, const Device&);
template void multiply_few<InParts<AcrossK>>(const Problem&, const split::Split&,
                                             const split::Split&, float*, const Device&);

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::fp16x3
