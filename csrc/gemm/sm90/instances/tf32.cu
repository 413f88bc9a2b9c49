#include "gemm/sm90/instances_tf32.h"

namespace smem::gemm::sm90 {

template FindKernel find_kernel_tf32<tile_index("128x128")>;
template FindKernel find_kernel_tf32<tile_index("128x64")>;
template FindKernel find_kernel_tf32<tile_index("64x128")>;
template FindKernel find_kernel_tf32<tile_index("64x64")>;
template FindKernel find_kernel_tf32<tile_index("64x32")>;
template FindKernel find_kernel_tf32<tile_index("64x64_3cta")>;

}  // namespace smem::gemm::sm90
