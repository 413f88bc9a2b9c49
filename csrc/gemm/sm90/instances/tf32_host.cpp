#include "gemm/sm90/instances_tf32.h"

namespace smem::gemm::sm90 {

template FindKernel find_kernel_tf32<tile_index("64x64")>;

}  // namespace smem::gemm::sm90
