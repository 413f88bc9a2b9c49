#include "gemm/sm90/instances_tf32.h"

namespace smem::gemm::sm90 {

template FindKernel find_kernel_tf32<tile_index("128x256_cluster2")>;
template FindKernel find_kernel_tf32<tile_index("128x192_cluster2")>;

}  // namespace smem::gemm::sm90
