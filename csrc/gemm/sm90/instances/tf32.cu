#include "gemm/sm90/instances_tf32.h"

namespace smem::gemm::sm90 {

template const void* kernel_of_floats<7>(Exit, Major);
template const void* kernel_of_floats<8>(Exit, Major);
template const void* kernel_of_floats<11>(Exit, Major);
template const void* kernel_of_floats<13>(Exit, Major);
template const void* kernel_of_floats<14>(Exit, Major);

}  // namespace smem::gemm::sm90
