// Launches a plan: packs operands, launches the kernel, and adds split-K partials.
#include "gemm/batch.h"
#include "gemm/pack.h"
#include "gemm/reduce_split_k.h"
#include "gemm/sm80/heuristics.h"
#include "gemm/sm80/instance_table.h"

namespace smem::gemm::sm80::inline SMEM_BUILD {
namespace {

MmaKernel kernel_of(DType dtype, const Plan& plan) {
  const auto find = dtype == DType::f32   ? find_kernel<float>
                    : dtype == DType::f16 ? find_kernel<half>
                                          : find_kernel<bfloat16>;
  return find(plan.tile, plan.a.major, plan.b.major);
}

/// The operand X(mn, k) as the kernel loads it; `transposed`: the matrix is X^T.
Operand loaded_operand(const void* data, const OperandDesc& desc, bool transposed) {
  const bool rows_are_contiguous = (desc.major == Major::K) != transposed;
  return rows_are_contiguous ? Operand{data, desc.outer_stride, 1}
                             : Operand{data, 1, desc.outer_stride};
}

/// Launches a problem with at most one batch dimension.
void launch_inner(const Problem& problem, const Plan& plan, WorkspaceAllocator workspace,
                  const Device& device) {
  const TileConfig& tile = TILES[plan.tile].config;
  const int tile_k = tile.tile_k(size_of(problem.dtype));
  const int64_t batch_count = inner_batch_count(problem);
  const auto [a, b] = pack_operands(problem, plan.a, plan.b, workspace, device);
  auto* const partials = static_cast<float*>(workspace.allocate(0));
  MmaParams params{
      .problem = problem,
      .scheduler = {static_cast<uint32_t>(ceil_div(problem.M, tile.tile_m)),
                    static_cast<uint32_t>(ceil_div(problem.N, tile.tile_n)),
                    static_cast<uint32_t>(plan.split_k_slices), static_cast<uint32_t>(batch_count),
                    static_cast<uint32_t>(plan.swizzle_size),
                    static_cast<uint32_t>(ceil_div(problem.K, tile_k)),
                    static_cast<uint32_t>(ceil_div(plan.slice_length, tile_k))},
      .partials = plan.split_k_slices > 1 ? partials : nullptr,
      .partial_pitch = partial_pitch(problem.N)};
  params.problem.a = loaded_operand(a, plan.a, false);
  params.problem.b = loaded_operand(b, plan.b, true);
  if (problem.batch.rank > 0) {
    params.problem.batch.stride[A][0] = plan.a.batched ? plan.a.batch_stride : 0;
    params.problem.batch.stride[B][0] = plan.b.batched ? plan.b.batch_stride : 0;
  }
  smem::launch("mma", kernel_of(problem.dtype, plan),
               Geometry{int64_t{params.scheduler.work_tiles}, dim3(tile.threads()),
                        static_cast<size_t>(tile.shared_bytes())},
               device, params);
  if (plan.split_k_slices > 1) {
    reduce_split_k(problem, batch_count, plan.split_k_slices, partials, device);
  }
}

}  // namespace

const void* kernel_function(DType dtype, const Plan& plan) {
  return reinterpret_cast<const void*>(kernel_of(dtype, plan));
}

void launch(const Problem& problem, const Plan& plan, void* workspace, const Device& device) {
  for_each_launch(problem, [&](const Problem& inner) {
    launch_inner(inner, plan, {static_cast<unsigned char*>(workspace)}, device);
  });
}

}  // namespace smem::gemm::sm80::inline SMEM_BUILD
