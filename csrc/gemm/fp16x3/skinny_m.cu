// The dispatch of the skinny kernels by B's layout, and the kernels of skinny_m_kernel.h for a
// K-major B and TMA. Those for other strides are in skinny_m_mn_major.cu, those of split-K in
// skinny_m_split_k.cu, and those without TMA in cp_async_skinny_m.cu.
#include "gemm/fp16x3/skinny_m.h"
#include "gemm/fp16x3/skinny_m_kernel.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {

template LaunchSkinnyM launch_skinny_m_layout<KMajor, LoadA::TMA>;
template LaunchSkinnyM launch_skinny_m_layout<KMajorUnaligned, LoadA::TMA>;
extern template LaunchSkinnyM launch_skinny_m_layout<MnMajor, LoadA::TMA>;
extern template LaunchSkinnyM launch_skinny_m_layout<AnyStrides, LoadA::TMA>;
extern template LaunchSkinnyM launch_skinny_m_layout<WithSplitK<KMajor>, LoadA::TMA>;
extern template LaunchSkinnyM launch_skinny_m_layout<WithSplitK<MnMajor>, LoadA::TMA>;
extern template LaunchSkinnyM launch_skinny_m_layout<KMajor, LoadA::CP_ASYNC>;
extern template LaunchSkinnyM launch_skinny_m_layout<KMajorUnaligned, LoadA::CP_ASYNC>;
extern template LaunchSkinnyM launch_skinny_m_layout<MnMajor, LoadA::CP_ASYNC>;
extern template LaunchSkinnyM launch_skinny_m_layout<AnyStrides, LoadA::CP_ASYNC>;
extern template LaunchSkinnyM launch_skinny_m_layout<WithSplitK<KMajor>, LoadA::CP_ASYNC>;
extern template LaunchSkinnyM launch_skinny_m_layout<WithSplitK<MnMajor>, LoadA::CP_ASYNC>;

namespace {

bool is_vectorized_k_major(const SplitOperand& b) {
  return split::can_vectorize(b, b.k_stride, b.k, b.mn_stride);
}

bool is_vectorized_mn_major(const SplitOperand& b) {
  return split::can_vectorize(b, b.mn_stride, b.mn, b.k_stride);
}

template <LoadA LOAD_A>
LaunchSkinnyM* launch_of(const SplitOperand& b) {
  const bool split_k = b.k_slices > 1;
  if (is_vectorized_k_major(b)) {
    return split_k ? launch_skinny_m_layout<WithSplitK<KMajor>, LOAD_A>
                   : launch_skinny_m_layout<KMajor, LOAD_A>;
  }
  if (is_vectorized_mn_major(b)) {
    return split_k ? launch_skinny_m_layout<WithSplitK<MnMajor>, LOAD_A>
                   : launch_skinny_m_layout<MnMajor, LOAD_A>;
  }
  return b.k_stride == 1 ? launch_skinny_m_layout<KMajorUnaligned, LOAD_A>
                         : launch_skinny_m_layout<AnyStrides, LOAD_A>;
}

}  // namespace

bool can_implement_skinny_m(const Problem& problem, const split::SplitOperand& b, bool uses_tma,
                            const Device& device) {
  constexpr int64_t MAX_M = 64;
  // If the matrices of a batch share B, each of them would split it.
  return problem.M <= MAX_M && (b.batch_count > 1 || inner_batch_count(problem) == 1) &&
         (uses_tma || device.shared_bytes >= size_t{SM80_SHARED_BYTES});
}

void launch_skinny_m(const Problem& problem, const split::SplitOperand& a,
                     const split::SplitOperand& b, float* partials, bool uses_tma,
                     const Device& device) {
  const auto launch = uses_tma ? launch_of<LoadA::TMA>(b) : launch_of<LoadA::CP_ASYNC>(b);
  launch(problem, a, b, partials, device);
}

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
