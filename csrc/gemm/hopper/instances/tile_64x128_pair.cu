#include "gemm/hopper/instances.h"

template const void* smem::gemm::hopper::kernel_of<12>(smem::gemm::hopper::Exit, smem::DType,
                                                       smem::Major, smem::Major);
