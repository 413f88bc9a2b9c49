#include "gemm/sm90/instances.h"

namespace smem::gemm::sm90 {

template FindKernel find_kernel<tile_index("128x256_cluster2")>;

}  // namespace smem::gemm::sm90
