#include "gemm/sm90/instances.h"

template const void* smem::gemm::sm90::kernel_of<8>(smem::gemm::sm90::Exit, smem::DType,
                                                      smem::Major, smem::Major);
