// The row `gemv` of the kernel table: its choices and its launches. The kernel is in kernel.h.
#include <algorithm>
#include <string>

#include "gemm/batch.h"
#include "gemm/gemv/kernel.h"
#include "gemm/ladder.h"
#include "gemm/operand_desc.h"
#include "gemm/reduce_split_k.h"

namespace smem::gemm {
namespace gemv {
inline namespace SMEM_BUILD {
namespace {

bool can_implement(const Problem& problem) {
  return problem.dtype != DType::f64 && problem.N == 1 && problem.K >= 1 &&
         problem.a.col_stride == 1 && problem.M * inner_batch_count(problem) <= MAX_BLOCKS;
}

/// The bytes at multiples of which all rows of A begin: 16, or fewer that a kernel is compiled for.
int row_alignment(const Problem& problem) {
  const auto bytes = static_cast<int64_t>(size_of(problem.dtype));
  uint64_t address_bits = reinterpret_cast<uintptr_t>(problem.a.data);
  if (problem.M > 1) address_bits |= static_cast<uint64_t>(problem.a.row_stride * bytes);
  for (int d = 0; d < problem.batch.rank; ++d) {
    address_bits |= static_cast<uint64_t>(problem.batch.stride[A][d] * bytes);
  }
  return address_bits % 16 == 0 ? 16 : address_bits % 4 == 0 ? 4 : 2;
}

/// Whether b is not read where it lies, by vectors.
bool stages_b(const Problem& problem) {
  return problem.b.row_stride != 1 || !is_aligned(problem.b.data) || !batch_is_aligned(problem, B);
}

/// The tiles of rows, and whether blocks divide K.
struct Plan {
  KDivision division;
  int warps = MAX_WARPS;     ///< of a block
  int64_t row_tiles, tiles;  ///< of a matrix, and of a launch
  bool splits_k;

  Plan(const Problem& problem, const Device& device) : division(problem.K, size_of(problem.dtype)) {
    const auto set_tiles = [&] {
      row_tiles =
          ceil_div(problem.M, int64_t{warps} / division.warps * (32 / division.lanes) * ROWS);
      tiles = row_tiles * inner_batch_count(problem);
    };
    set_tiles();
    while (warps > division.warps && tiles < device.sm_count) {
      warps /= 2;
      set_tiles();
    }
    splits_k = division.slices > 1 && tiles < 2 * int64_t{device.sm_count};
  }

  int slices() const { return splits_k ? division.slices : 1; }
};

using GemvKernel = void(GemvParams);
template <typename T>
GemvKernel* kernel_of(int alignment) {
  if (alignment == 16) return gemv_kernel<T, 16>;
  if constexpr (sizeof(T) == 2) {
    if (alignment == 2) return gemv_kernel<T, 2>;
  }
  return gemv_kernel<T, 4>;
}
GemvKernel* kernel_of(DType dtype, int alignment) {
  return dtype == DType::f32   ? kernel_of<float>(alignment)
         : dtype == DType::f16 ? kernel_of<half>(alignment)
                               : kernel_of<bfloat16>(alignment);
}

/// Launches a problem with at most one batch dimension.
void launch_inner(const Problem& problem, const Device& device) {
  const Plan plan(problem, device);
  const GemvParams params{.problem = problem,
                          .division = plan.division,
                          .stages_b = stages_b(problem),
                          .splits_k = plan.splits_k,
                          .partials = static_cast<float*>(problem.workspace),
                          .partial_pitch = partial_pitch(problem.N),
                          .row_tiles = static_cast<unsigned>(plan.row_tiles)};
  const int64_t staged = std::min(problem.K, plan.division.slice_length);
  const size_t shared_bytes =
      params.stages_b ? static_cast<size_t>(staged) * size_of(problem.dtype) : 0;
  smem::launch("gemv", kernel_of(problem.dtype, row_alignment(problem)),
               {.blocks = plan.tiles * plan.slices(),
                .threads = {static_cast<unsigned>(32 * plan.warps)},
                .dynamic_shared_bytes = shared_bytes,
                .launch_with_pdl = true},
               device, params);
  if (plan.splits_k) {
    reduce_split_k(problem, inner_batch_count(problem), plan.slices(), params.partials, device);
  }
}

}  // namespace
}  // namespace SMEM_BUILD
}  // namespace gemv

inline namespace SMEM_BUILD {

void launch_gemv(const Problem& problem, const Device& device) {
  if (!gemv::can_implement(problem)) return register_tiled.launch(problem, device);
  for_each_launch(problem, [&](const Problem& inner) { gemv::launch_inner(inner, device); });
}

size_t gemv_workspace_bytes(const Problem& problem, const Device& device) {
  if (!gemv::can_implement(problem)) return 0;
  const gemv::Plan plan(problem, device);
  return static_cast<size_t>(partial_bytes(problem, plan.slices()));
}

std::string gemv_approach(const Problem& problem, const Device& device) {
  if (!gemv::can_implement(problem)) return "left to register_tiled";
  const gemv::Plan plan(problem, device);
  std::string text =
      "a row by " + std::to_string(plan.division.lanes * plan.division.warps) + " lanes";
  if (plan.splits_k) text += ", K in " + std::to_string(plan.division.slices) + " slices";
  return text;
}

const void* gemv_function(DType dtype) {
  if (dtype == DType::f64) return register_tiled.function(dtype);
  return reinterpret_cast<const void*>(gemv::kernel_of(dtype, /*alignment=*/16));
}

const Kernel gemv_row = {
    .name = "gemv",
    .summary = "a matrix times a vector: contiguous rows read once, chains of K in lanes",
    .requires_ = "any shape, any strides",
    .launch = launch_gemv,
    .function = gemv_function,
    .symbol = nullptr,
    .largest_k = nullptr,
    .workspace_bytes = gemv_workspace_bytes,
    .approach = gemv_approach,
};

}  // namespace SMEM_BUILD
}  // namespace smem::gemm
