// Launches a plan: packs operands, launches the kernel, and adds split-K partials.
#include "gemm/batch.h"
#include "gemm/pack.h"
#include "gemm/reduce_split_k.h"
#include "gemm/sm80/heuristics.h"
#include "gemm/sm80/instance_table.h"

namespace smem::gemm::sm80::inline SMEM_BUILD {
namespace {

/// Calls f<T>() for the element type of a dtype.
template <typename F>
auto dispatch_element(DType dtype, const F& f) {
  return dtype == DType::f32   ? f.template operator()<float>()
         : dtype == DType::f16 ? f.template operator()<half>()
                               : f.template operator()<bfloat16>();
}

template <typename T>
LoadedOperand<T> loaded_operand(const void* data, const OperandDesc& desc) {
  return {static_cast<const T*>(data), desc.batched ? desc.batch_stride : 0,
          static_cast<uint32_t>(desc.outer_stride * static_cast<int64_t>(sizeof(T))), desc.major};
}

/// Launches a problem with at most one batch dimension.
void launch_inner(const Problem& problem, const Plan& plan, WorkspaceAllocator workspace,
                  const Device& device) {
  const TileConfig tile = tile_config(plan.tile, device.code_capability);
  const int tile_k = tile.tile_k(size_of(problem.dtype));
  const int64_t batch_count = inner_batch_count(problem);
  const auto [a, b] =
      pack_operands(problem, plan.a, plan.b, /*signals_early=*/false, workspace, device);
  auto* const partials = static_cast<float*>(workspace.allocate(0));
  const TileScheduler scheduler(
      static_cast<uint32_t>(ceil_div(problem.M, tile.tile_m)),
      static_cast<uint32_t>(ceil_div(problem.N, tile.tile_n)),
      static_cast<uint32_t>(plan.split_k_slices), static_cast<uint32_t>(batch_count),
      static_cast<uint32_t>(plan.swizzle_size), static_cast<uint32_t>(ceil_div(problem.K, tile_k)),
      static_cast<uint32_t>(ceil_div(plan.slice_length, tile_k)));
  const Geometry geometry{plan.blocks, dim3(tile.threads()),
                          static_cast<size_t>(tile.shared_bytes()),
                          /*launch_with_pdl=*/plan.a.packed || plan.b.packed};
  dispatch_element(problem.dtype, [&]<typename T> {
    const MmaParams<T> params{.a = loaded_operand<T>(a, plan.a),
                              .b = loaded_operand<T>(b, plan.b),
                              .M = static_cast<int>(problem.M),
                              .N = static_cast<int>(problem.N),
                              .K = static_cast<int>(problem.K),
                              .scheduler = scheduler,
                              .partials = plan.split_k_slices > 1 ? partials : nullptr,
                              .partial_pitch = partial_pitch(problem.N),
                              .epilogue = epilogue_of<T>(problem),
                              .strides = batch_strides(problem)};
    smem::launch("mma", find_kernel<T>(plan.tile, plan.a.major, plan.b.major), geometry, device,
                 params);
  });
  if (plan.split_k_slices > 1) {
    reduce_split_k(problem, batch_count, plan.split_k_slices, partials, device);
  }
}

}  // namespace

const void* kernel_function(DType dtype, const Plan& plan) {
  return dispatch_element(dtype, [&]<typename T> {
    return reinterpret_cast<const void*>(find_kernel<T>(plan.tile, plan.a.major, plan.b.major));
  });
}

void launch(const Problem& problem, const Plan& plan, void* workspace, const Device& device) {
  for_each_launch(problem, [&](const Problem& inner) {
    launch_inner(inner, plan, {static_cast<unsigned char*>(workspace)}, device);
  });
}

}  // namespace smem::gemm::sm80::inline SMEM_BUILD
