// The kernels of skinny_m_kernel.h for a kept split of B, whose hi and lo TMA loads.
#include "gemm/fp16x3/skinny_m.h"
#include "gemm/fp16x3/skinny_m_kernel.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {

void launch_skinny_m_hi_lo(const Problem& problem, const split::SplitOperand& a,
                           const split::SplitOperand& b, float* partials, const Device& device) {
  const auto launch = [&](auto config) {
    launch_config<decltype(config)>(problem, a, b, partials, device);
  };
  // A tile reads as many bytes of A, from L2, as it has of B if both have as many rows as columns.
  // So the tile is wider unless that leaves SMs without a block.
  const auto launch_narrow_or = [&](auto narrow, auto wide) {
    const int64_t tiles =
        ceil_div(problem.N, decltype(narrow)::TILE_N) * inner_batch_count(problem);
    if (tiles * a.k_slices <= device.sm_count) return launch(narrow);
    launch(wide);
  };
  if (problem.M <= 8) return launch(SkinnyMConfig<HiLoLayout, HI_LO_M8>{});
  if (problem.M <= 16) {
    return launch_narrow_or(SkinnyMConfig<HiLoLayout, HI_LO_M16>{},
                            SkinnyMConfig<HiLoLayout, HI_LO_M16_WIDE>{});
  }
  if (problem.M <= 32) return launch(SkinnyMConfig<HiLoLayout, HI_LO_M32>{});
  launch_narrow_or(SkinnyMConfig<HiLoLayout, HI_LO_M64>{},
                   SkinnyMConfig<HiLoLayout, HI_LO_M64_WIDE>{});
}

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
