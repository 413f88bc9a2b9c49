#include "gemm/sm90/instances_tf32.h"

namespace smem::gemm::sm90 {

template const void* kernel_of_floats<0>(Exit, Major);
template const void* kernel_of_floats<3>(Exit, Major);

}  // namespace smem::gemm::sm90
