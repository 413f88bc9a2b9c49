// The dispatch of the skinny kernels by B's layout, and the kernels of skinny_m_kernel.h for a
// K-major B. Those for an MN-major B are in skinny_m_mn_major.cu, those of split-K in
// skinny_m_split_k.cu.
#include "gemm/fp16x3/skinny_m.h"
#include "gemm/fp16x3/skinny_m_kernel.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {

template LaunchSkinnyM launch_skinny_m_layout<KMajor>;
template LaunchSkinnyM launch_skinny_m_layout<KMajorUnaligned>;
extern template LaunchSkinnyM launch_skinny_m_layout<MnMajor>;
extern template LaunchSkinnyM launch_skinny_m_layout<WithSplitK<KMajor>>;
extern template LaunchSkinnyM launch_skinny_m_layout<WithSplitK<MnMajor>>;

namespace {

bool is_vectorized_k_major(const SplitOperand& b) {
  return split::can_vectorize(b, b.k_stride, b.k, b.mn_stride);
}

bool is_vectorized_mn_major(const SplitOperand& b) {
  return split::can_vectorize(b, b.mn_stride, b.mn, b.k_stride);
}

}  // namespace

bool can_implement_skinny_m(const Problem& problem, const split::SplitOperand& b) {
  constexpr int64_t MAX_M = 64;
  // If the matrices of a batch share B, each of them would split it.
  return problem.M <= MAX_M && (b.batch_count > 1 || inner_batch_count(problem) == 1) &&
         (b.k_stride == 1 || is_vectorized_mn_major(b));
}

void launch_skinny_m(const Problem& problem, const split::SplitOperand& a,
                     const split::SplitOperand& b, float* partials, const Device& device) {
  const auto launch = [&](auto launch_layout) { launch_layout(problem, a, b, partials, device); };
  const bool split_k = b.k_slices > 1;
  if (is_vectorized_k_major(b)) {
    if (split_k) return launch(launch_skinny_m_layout<WithSplitK<KMajor>>);
    return launch(launch_skinny_m_layout<KMajor>);
  }
  if (is_vectorized_mn_major(b)) {
    if (split_k) return launch(launch_skinny_m_layout<WithSplitK<MnMajor>>);
    return launch(launch_skinny_m_layout<MnMajor>);
  }
  launch(launch_skinny_m_layout<KMajorUnaligned>);
}

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
