// fp16x3: float32's accuracy by three float16 products on tensor cores. This file is the entry: it
// chooses the launches and lays out the workspace.
//
//   x = (hi + lo / 2^12) 2^e      A B = (Ahi Bhi + (Ahi Blo + Alo Bhi) / 2^12) 2^(eA + eB)
//
// The scheme is Ootomo and Yokota's (IJHPCA 36, 2022), and that of CUTLASS's 3xTF32. The launches:
//
//   M > 64, wgmma    split A and B (split_*.cu) -> gemm.cu
//   M > 64, mma      split A and B -> gemm_sm80.cu
//   M <= 64          split A -> skinny_m_kernel.h, which splits B itself, if B's layout allows it
//   and a short K    short_k.cu alone, on Hopper: it splits both
//   and many columns split A -> skinny_m_rs.cu, which splits B itself, on Hopper
//   few tiles        as M <= 64, by groups of rows of A that share B (skinny_m.h)
//   B's split kept   B is not split again (Problem::b_split), and for M <= 64 or few tiles, on
//                    Hopper, skinny_m_kernel.h reads hi and lo
//   split-K          one of these for all k slices -> reduce_split_k, if N is small and K large
//
// The variant wgmma is for Hopper, and mma for every GPU since sm_80. Both add in the same order.
//
// A split stores two fp16 numbers per element and a power of two per row of A and column of B.
// gemm.cu or gemm_sm80.cu multiplies them; rows and columns that two fp16 numbers cannot represent
// are computed by float32 FMAs at its end (fp32_fallback.h). On Hopper every kernel but the first
// starts while the previous one still runs (programmatic dependent launch, device/pdl.h). Elements
// of A and B are read once; their hi and lo are read N / TILE_N and M / 128 times, mostly out of
// L2.
//
// What may be changed: can_implement's limits and the order of the launches. The slices of K
// (split_k.cu) and the order of the additions (promotion.h) determine the bits of the results.
#include <cmath>
#include <iterator>
#include <string>

#include "device/device.h"
#include "gemm/batch.h"
#include "gemm/fp16x3/gemm.h"
#include "gemm/fp16x3/gemm_sm80.h"
#include "gemm/fp16x3/short_k.h"
#include "gemm/fp16x3/skinny_m.h"
#include "gemm/fp16x3/split.h"
#include "gemm/fp16x3/split_k.h"
#include "gemm/fp16x3/split_problem.h"
#include "gemm/ladder.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {
namespace {

using split::SplitOperand;
using split::SplitWorkspace;

/// The instructions that multiply the split operands.
enum Variant : int { WGMMA, MMA };
constexpr const char* VARIANT_NAMES[] = {"wgmma", "mma"};
constexpr TensorCores VARIANT_TENSOR_CORES[] = {{.capability = 90, .alone = true},
                                                {.capability = 80}};

bool runs_wgmma(const Problem& problem, const Device& device) {
  if (problem.variant >= 0) return problem.variant == WGMMA;
  return device.host || device.runs_sm90a();
}

bool can_implement(const Problem& problem, const Device& device) {
  // Rows and columns are counted in 32 bits, up to one tile beyond the last, and hi and lo double
  // K.
  constexpr int64_t MAX_SIZE = (int64_t{1} << 30) - 1024, MAX_TILES = int64_t{1} << 30, TILE = 128;
  return problem.dtype == DType::f32 && (device.host || device.code_capability >= 80) &&
         problem.M >= 1 && problem.N >= 1 && problem.K >= 1 && problem.M < MAX_SIZE &&
         problem.N < MAX_SIZE && problem.K < MAX_SIZE &&
         ceil_div(problem.M, TILE) * ceil_div(problem.N, TILE) * inner_batch_count(problem) *
                 SplitKConfig(problem.N, problem.K).slices <
             MAX_TILES;
}

/// Whether the kernel for a short K runs. It needs no split of B, even if one is kept.
bool runs_short_k(const Problem& problem, const Device& device) {
  return runs_wgmma(problem, device) && is_fastest_by_short_k(problem);
}

/// Whether a kernel for a small M runs that reads the kept split of B.
bool runs_skinny_m_hi_lo(const Problem& problem, const Device& device) {
  return problem.b_split && problem.M <= SKINNY_MAX_M && runs_wgmma(problem, device);
}

/// Whether the kernel for a small M runs that splits B itself. Without TMA it does so even if B's
/// split is kept.
bool runs_skinny_m(const Problem& problem, const Device& device) {
  return !runs_skinny_m_hi_lo(problem, device) &&
         can_implement_skinny_m(problem, operand_of(problem, B), runs_wgmma(problem, device),
                                device);
}

/// Whether it is the one for many columns.
bool runs_skinny_m_rs(const Problem& problem, const Device& device) {
  return runs_skinny_m(problem, device) && runs_wgmma(problem, device) &&
         is_fastest_by_rs(problem, operand_of(problem, B), device);
}

/// The problem as a batch of groups of its rows, if the skinny kernel computes it so. A variant
/// that is named computes more than 64 rows by its own product kernel.
Problem in_row_groups(const Problem& problem, const Device& device) {
  if (problem.variant >= 0 || !runs_wgmma(problem, device)) return problem;
  return skinny_m_row_groups(problem, operand_of(problem, B), device);
}

struct Fp16x3Workspace {
  bool is_skinny;  ///< the kernel for a small M splits B itself
  bool b_is_kept;  ///< B's split is Problem::b_split, not in the workspace
  SplitWorkspace a, b;
  size_t partials, bytes;

  Fp16x3Workspace(const Problem& problem, const Device& device)
      : is_skinny(runs_skinny_m(problem, device)),
        b_is_kept(problem.b_split && !is_skinny),
        a(operand_of(problem, A)),
        b(workspace_operand_b(problem)),
        partials(a.bytes + (b_is_kept ? 0 : b.bytes)),
        bytes(partials + SplitKConfig(problem.N, problem.K).partials_bytes(problem)) {}

  /// B as the launches see it. The skinny kernel stores results for each matrix of the batch, even
  /// if they share B.
  SplitOperand operand_b(const Problem& problem) const {
    SplitOperand b = operand_of(problem, B);
    if (is_skinny) b.batch_count = inner_batch_count(problem);
    return b;
  }

 private:
  /// B as the workspace needs it: the skinny kernel never stores B's hi and lo.
  SplitOperand workspace_operand_b(const Problem& problem) const {
    SplitOperand b = operand_b(problem);
    if (is_skinny) b.k_slice_length = 0;
    return b;
  }
};

/// Splits the operands that are not split yet, and multiplies them.
void launch_large_m(const Problem& problem, const SplitOperand& a, const SplitOperand& b,
                    bool b_is_kept, float* partials, const Device& device) {
  // An MN-major operand is split first: 2 us less at 2048^3.
  const bool b_first = split::is_mn_major(b);
  if (b_is_kept) {
    split::launch_split(a, device);
  } else {
    split::launch_split(b_first ? b : a, device);
    split::launch_split(b_first ? a : b, device, /*launch_with_pdl=*/true);
  }
  const auto launch = runs_wgmma(problem, device) ? launch_gemm : mma::launch_gemm;
  launch(problem, a, b, partials, device);
}

/// Launches for a problem with one batch loop at most.
void launch_batch(const Problem& problem, const Device& device) {
  const Fp16x3Workspace layout(problem, device);
  auto* const workspace = static_cast<unsigned char*>(problem.workspace);
  const SplitOperand a = layout.a.bind(operand_of(problem, A), workspace);
  const SplitOperand b = layout.b_is_kept
                             ? bind_b_split(problem, problem.b_split)
                             : layout.b.bind(layout.operand_b(problem), workspace + layout.a.bytes);
  auto* const partials = reinterpret_cast<float*>(workspace + layout.partials);
  if (runs_skinny_m_hi_lo(problem, device)) {
    split::launch_split(a, device);
    launch_skinny_m_hi_lo(problem, a, b, partials, device);
  } else if (layout.is_skinny) {
    split::launch_split(a, device);
    launch_skinny_m(problem, a, b, partials, runs_wgmma(problem, device), device);
  } else {
    launch_large_m(problem, a, b, layout.b_is_kept, partials, device);
  }
  if (a.k_slices > 1) reduce_split_k(problem, a, b, partials, device);
}

}  // namespace
}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD

namespace smem::gemm::inline SMEM_BUILD {

void launch_fp16x3(const Problem& problem, const Device& device) {
  if (!fp16x3::can_implement(problem, device)) return double_buffered.launch(problem, device);
  if (fp16x3::runs_short_k(problem, device)) {
    return for_each_launch(problem,
                           [&](const Problem& batch) { fp16x3::launch_short_k(batch, device); });
  }
  for_each_launch(fp16x3::in_row_groups(problem, device),
                  [&](const Problem& batch) { fp16x3::launch_batch(batch, device); });
}

size_t fp16x3_workspace_bytes(const Problem& problem, const Device& device) {
  if (!fp16x3::can_implement(problem, device)) return 0;
  if (fp16x3::runs_short_k(problem, device)) return 0;
  return fp16x3::Fp16x3Workspace(fp16x3::in_row_groups(problem, device), device).bytes;
}

std::string fp16x3_approach(const Problem& problem, const Device& device) {
  if (!fp16x3::can_implement(problem, device)) return "left to double_buffered";
  if (fp16x3::runs_short_k(problem, device)) return "by the kernel for a short K";
  const Problem grouped = fp16x3::in_row_groups(problem, device);
  if (fp16x3::runs_skinny_m(grouped, device)) {
    std::string text = "by the kernel for a small M";
    if (fp16x3::runs_skinny_m_rs(grouped, device)) text += " and many columns";
    if (grouped.M != problem.M) text += ", " + std::to_string(grouped.M) + " rows at a time";
    return text;
  }
  if (fp16x3::runs_wgmma(problem, device)) return "by wgmma";
  const auto a = fp16x3::operand_of(problem, A), b = fp16x3::operand_of(problem, B);
  const double ns = fp16x3::mma::expected_ns(problem, a, b, device);
  return "by mma.sync in tiles 128x" +
         std::to_string(fp16x3::mma::choose_tile(problem, b.k_slices, device).tile_n) + ": " +
         std::to_string(std::lround(ns / 1000)) + " us expected";
}

#ifdef __CUDACC__
/// That of the variant for which this build has code on the current device.
const void* fp16x3_function(DType) {
  const void* const wgmma = fp16x3::gemm_function();
  return cuda_kernel_resources(wgmma) ? wgmma : fp16x3::mma::gemm_function();
}
#else
constexpr std::nullptr_t fp16x3_function = nullptr;
#endif

const Kernel fp16x3_row = {
    .name = "fp16x3",
    .summary = "float32's accuracy by three float16 products on tensor cores",
    .requires_ = "float32 but not precision ieee, compute capability 8.0 or newer",
    .launch = launch_fp16x3,
    .function = fp16x3_function,
    .symbol = nullptr,
    .largest_k = nullptr,
    .dtypes = dtypes(DType::f32),
    .tensor_cores = {.capability = 80},
    .float32 = Precision::fp32,
    .workspace_bytes = fp16x3_workspace_bytes,
    .variants = fp16x3::VARIANT_NAMES,
    .variant_count = std::size(fp16x3::VARIANT_NAMES),
    .variant_tensor_cores = fp16x3::VARIANT_TENSOR_CORES,
    .approach = fp16x3_approach,
};

}  // namespace smem::gemm::inline SMEM_BUILD
