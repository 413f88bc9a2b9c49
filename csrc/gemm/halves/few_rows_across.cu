// The kernels of few_rows_kernel.h for a B that lies across K: a file of their own, so that none
// takes long to compile.
#include "gemm/halves/few_rows_kernel.h"

namespace smem::gemm::halves {
inline namespace SMEM_BUILD {

template void multiply_few<AcrossK>(const Problem&, const split::Split&, const split::Split&,
                                    float*, const Device&);
template void multiply_few<InParts<AcrossK>>(const Problem&, const split::Split&,
                                             const split::Split&, float*, const Device&);

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::halves
