// The kernels of skinny_m_kernel.h for GPUs without TMA, and for all layouts of B.
#include "gemm/fp16x3/skinny_m_kernel.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {

template LaunchSkinnyM launch_skinny_m_layout<KMajor, LoadA::CP_ASYNC>;
template LaunchSkinnyM launch_skinny_m_layout<KMajorUnaligned, LoadA::CP_ASYNC>;
template LaunchSkinnyM launch_skinny_m_layout<MnMajor, LoadA::CP_ASYNC>;
template LaunchSkinnyM launch_skinny_m_layout<AnyStrides, LoadA::CP_ASYNC>;
template LaunchSkinnyM launch_skinny_m_layout<WithSplitK<KMajor>, LoadA::CP_ASYNC>;
template LaunchSkinnyM launch_skinny_m_layout<WithSplitK<MnMajor>, LoadA::CP_ASYNC>;

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
