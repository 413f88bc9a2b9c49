#include "gemm/hopper/floats_instances.h"

namespace smem::gemm::hopper {

template const void* kernel_of_floats<0>(Exit, Major);
template const void* kernel_of_floats<3>(Exit, Major);

}  // namespace smem::gemm::hopper
