#include "gemm/hopper/floats_instances.h"

namespace smem::gemm::hopper {

template const void* kernel_of_floats<7>(Exit, Major);
template const void* kernel_of_floats<8>(Exit, Major);
template const void* kernel_of_floats<11>(Exit, Major);
template const void* kernel_of_floats<13>(Exit, Major);
template const void* kernel_of_floats<14>(Exit, Major);

}  // namespace smem::gemm::hopper
