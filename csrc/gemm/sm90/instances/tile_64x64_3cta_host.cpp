#include "gemm/sm90/instances.h"

namespace smem::gemm::sm90 {

template const void* find_kernel<tile_index("64x64_3cta")>(EpilogueKind, DType, Major, Major);

}  // namespace smem::gemm::sm90
