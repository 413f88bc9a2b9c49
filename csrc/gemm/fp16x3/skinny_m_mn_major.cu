// The kernels of skinny_m_kernel.h for an MN-major B and for one of any strides. They have a file
// of their own so that none takes long to compile.
#include "gemm/fp16x3/skinny_m_kernel.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {

template LaunchSkinnyM launch_skinny_m_layout<MnMajor, LoadA::TMA>;
template LaunchSkinnyM launch_skinny_m_layout<MnMajorUnaligned, LoadA::TMA>;
template LaunchSkinnyM launch_skinny_m_layout<AnyStrides, LoadA::TMA>;

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
