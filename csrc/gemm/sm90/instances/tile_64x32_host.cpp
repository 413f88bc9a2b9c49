#include "gemm/sm90/instances.h"

namespace smem::gemm::sm90 {

template FindKernel find_kernel<tile_index("64x32")>;

}  // namespace smem::gemm::sm90
