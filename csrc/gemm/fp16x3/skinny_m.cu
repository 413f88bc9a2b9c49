// The dispatch of the skinny kernels by B's layout, and the kernels of skinny_m_kernel.h for a
// K-major B and TMA. Those for other strides are in skinny_m_mn_major.cu, those of split-K in
// skinny_m_split_k.cu, and those without TMA in cp_async_skinny_m.cu.
#include "gemm/fp16x3/skinny_m.h"
#include "gemm/fp16x3/skinny_m_kernel.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {

template LaunchSkinnyM launch_skinny_m_layout<KMajor, LoadA::TMA>;
template LaunchSkinnyM launch_skinny_m_layout<KMajorUnaligned, LoadA::TMA>;
extern template LaunchSkinnyM launch_skinny_m_layout<MnMajor, LoadA::TMA>;
extern template LaunchSkinnyM launch_skinny_m_layout<MnMajorUnaligned, LoadA::TMA>;
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

bool is_vectorized(const SplitOperand& b) {
  return split::can_vectorize_along_k(b) || split::can_vectorize_along_mn(b);
}

template <LoadA LOAD_A>
LaunchSkinnyM* launch_of(const SplitOperand& b) {
  const bool split_k = b.k_slices > 1;
  if (split::can_vectorize_along_k(b)) {
    return split_k ? launch_skinny_m_layout<WithSplitK<KMajor>, LOAD_A>
                   : launch_skinny_m_layout<KMajor, LOAD_A>;
  }
  if (split::can_vectorize_along_mn(b)) {
    return split_k ? launch_skinny_m_layout<WithSplitK<MnMajor>, LOAD_A>
                   : launch_skinny_m_layout<MnMajor, LOAD_A>;
  }
  if (b.k_stride == 1) return launch_skinny_m_layout<KMajorUnaligned, LOAD_A>;
  if constexpr (LOAD_A == LoadA::TMA) {
    // Rows that follow each other: RowRing reads over the end of all but the last ones.
    if (b.mn_stride == 1 && b.k_stride > 0) {
      return launch_skinny_m_layout<MnMajorUnaligned, LOAD_A>;
    }
  }
  return launch_skinny_m_layout<AnyStrides, LOAD_A>;
}

constexpr int64_t MOST_BLOCKS_PER_SM = 8;  ///< that should_split_each allows

/// Blocks of 16 columns, the narrowest.
int64_t blocks_of(const Problem& problem, const SplitOperand& b) {
  return ceil_div(problem.N, GROUP_COLS) * b.k_slices * inner_batch_count(problem);
}

/// Whether matrices that share B should each split it: if all blocks run at once, one per SM. Two
/// of more than 32 rows may have more: the longer K is, the more the split through memory costs.
bool should_split_each(const Problem& problem, const SplitOperand& b, const Device& device) {
  constexpr int64_t LONG_K = 4096, VERY_LONG_K = 16'384;
  const bool is_pair = inner_batch_count(problem) == 2 && problem.M > 32 && b.k_slices == 1;
  int64_t blocks_per_sm = 1;
  if (is_pair && is_vectorized(b)) {
    const bool is_very_long = split::can_vectorize_along_mn(b) && problem.K >= VERY_LONG_K;
    blocks_per_sm = is_very_long ? MOST_BLOCKS_PER_SM : problem.K >= LONG_K ? 4 : 2;
  }
  return blocks_of(problem, b) <= blocks_per_sm * device.sm_count;
}

/// Whether all blocks that read a kept split run at once, one per SM. A block of more than 32 rows
/// has two column groups.
bool kept_blocks_run_at_once(const Problem& problem, const SplitOperand& b, const Device& device) {
  const int64_t columns = problem.M > 32 ? 2 * GROUP_COLS : GROUP_COLS;
  return ceil_div(problem.N, columns) * b.k_slices * inner_batch_count(problem) <= device.sm_count;
}

/// `groups` groups of rows as a batch. The steps between them are equal.
Problem with_row_groups(Problem problem, int64_t groups) {
  const int64_t step = problem.M / groups;
  problem.M = step + problem.M % groups;
  problem.batch.rank = 1;
  problem.batch.size[0] = groups;
  problem.batch.stride[A][0] = step * problem.a.row_stride;
  problem.batch.stride[B][0] = 0;
  problem.batch.stride[C][0] = step * problem.c.row_stride;
  problem.batch.stride[OUT][0] = step * problem.out.row_stride;
  return problem;
}

}  // namespace

bool can_implement_skinny_m(const Problem& problem, const split::SplitOperand& b, bool uses_tma,
                            const Device& device) {
  if (problem.M > SKINNY_MAX_M) return false;
  if (!uses_tma && device.shared_bytes < size_t{SM80_SHARED_BYTES}) return false;
  return b.batch_count > 1 || inner_batch_count(problem) == 1 ||
         (uses_tma && should_split_each(problem, b, device));
}

// The limits are those of 3,927 problems on an H100: 1,695 of them are computed in groups and take
// 0.85 times as long, 5 take more than 1.06 times. Groups that read a kept split take 0.81 (1024
// columns of 4096 and 128 rows 26 us, 34 without groups).
Problem skinny_m_row_groups(const Problem& problem, const split::SplitOperand& b,
                            const Device& device) {
  if (problem.batch.rank > 0) return problem;
  const bool is_kept = problem.b_split != nullptr;
  const int64_t max_rows = b.k_slices > 1 ? 16 : is_kept || is_vectorized(b) ? SKINNY_MAX_M : 32;
  for (int64_t rows = 16; rows <= max_rows && rows < problem.M; rows *= 2) {
    const int64_t most_groups = MOST_BLOCKS_PER_SM * device.sm_count / blocks_of(problem, b);
    int64_t groups = ceil_div(problem.M, rows);
    while (groups <= most_groups && problem.M / groups + problem.M % groups > rows) ++groups;
    if (groups > most_groups) continue;
    // Rows of two groups are stored twice, so their C must not be out itself.
    if (problem.c.data && problem.M % groups != 0) continue;
    const Problem grouped = with_row_groups(problem, groups);
    if (is_kept ? kept_blocks_run_at_once(grouped, b, device)
                : should_split_each(grouped, b, device)) {
      return grouped;
    }
  }
  return problem;
}

void launch_skinny_m(const Problem& problem, const split::SplitOperand& a,
                     const split::SplitOperand& b, float* partials, bool uses_tma,
                     const Device& device) {
  if (uses_tma && is_fastest_by_rs(problem, b, device)) {
    return launch_skinny_m_rs(problem, a, b, device);
  }
  const auto launch = uses_tma ? launch_of<LoadA::TMA>(b) : launch_of<LoadA::CP_ASYNC>(b);
  launch(problem, a, b, partials, device);
}

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
