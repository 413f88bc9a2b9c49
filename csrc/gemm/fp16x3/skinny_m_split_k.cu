// The split-K kernels of skinny_m_kernel.h. They have a file of their own so that none takes long
// to compile.
#include "gemm/fp16x3/skinny_m_kernel.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {

template LaunchSkinnyM launch_skinny_m_layout<WithSplitK<KMajor>, LoadA::TMA>;
template LaunchSkinnyM launch_skinny_m_layout<WithSplitK<MnMajor>, LoadA::TMA>;

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
