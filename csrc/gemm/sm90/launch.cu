// Launches a plan: packs operands, makes tensor maps and parameters, and launches the kernels.
#include <algorithm>
#include <utility>

#include "gemm/batch.h"
#include "gemm/epilogue_params.h"
#include "gemm/pack.h"
#include "gemm/reduce_split_k.h"
#include "gemm/sm90/heuristics.h"
#include "gemm/sm90/instance_table.h"
#include "gemm/sm90/params.h"
#include "gemm/sm90/tensor_map.h"
#include "gemm/tile_counter.h"

namespace smem::gemm::sm90::inline SMEM_BUILD {
namespace {

/// Null if this build has no kernel for the tile. Every tile of a build has one of these epilogues.
template <int INDEX, DType DTYPE>
constexpr FindKernel* find() {
  if constexpr (!is_built(INDEX, DTYPE, EpilogueKind::tma) &&
                !is_built(INDEX, DTYPE, EpilogueKind::any)) {
    return nullptr;
  } else if constexpr (DTYPE == DType::f32) {
    return find_kernel_tf32<INDEX>;
  } else {
    return find_kernel<INDEX>;
  }
}

template <int... INDEX>
const void* kernel_of(const Plan& plan, DType dtype, std::integer_sequence<int, INDEX...>) {
  constexpr FindKernel* FIND[] = {find<INDEX, DType::bf16>()...};
  constexpr FindKernel* FIND_TF32[] = {find<INDEX, DType::f32>()...};
  return (dtype == DType::f32 ? FIND_TF32 : FIND)[plan.tile](plan.epilogue, dtype, plan.a.major,
                                                             plan.b.major);
}

/// The maps of GemmParams::a or ::b. A stage has up to `stage_rows` rows; `multicast` is the number
/// of blocks that load a part of the tile each.
void make_operand_maps(CUtensorMap (&maps)[2], const OperandDesc& desc, DType dtype,
                       const void* data, int stage_rows, const LoadExtent& extent, int multicast) {
  const TensorShape shape{.dtype = dtype,
                          .data = data,
                          .x = desc.inner_size,
                          .y = desc.outer_size,
                          .z = desc.batch_count,
                          .y_stride = desc.outer_stride,
                          .z_stride = desc.batch_stride,
                          .as_tf32 = dtype == DType::f32};
  const int k = tile_k(dtype);
  if (desc.major == Major::K) {
    maps[0] = make_tensor_map(shape, k, extent.size / multicast);
    if (multicast == 1 && extent.last_size != 0) {
      maps[1] = make_tensor_map(shape, k, extent.last_size);
    }
    return;
  }
  const int row_bytes = stage_row_bytes(desc.major, stage_rows, size_of(dtype));
  const int panel = row_bytes / static_cast<int>(size_of(dtype));
  maps[0] = make_tensor_map(shape, panel, k, row_bytes);
  const int rest = extent.size % panel;
  if (rest != 0) maps[1] = make_tensor_map(shape, rest, k, row_bytes);
}

/// `launch_with_pdl`: the kernel may begin while the kernel before still runs (device/pdl.h).
template <typename T>
void launch_tile(const void* kernel, const Plan& plan, const GemmParams<T>& params,
                 bool launch_with_pdl, const Device& device) {
  const TileConfig& tile = TILES[plan.tile].config;
  const Geometry geometry{.blocks = int64_t{plan.clusters} * tile.cluster_m,
                          .threads = {static_cast<unsigned>(tile.threads())},
                          .dynamic_shared_bytes = tile.shared_bytes(),
                          .launch_with_pdl = launch_with_pdl,
                          .cluster_size = static_cast<unsigned>(tile.cluster_m)};
#ifdef __CUDACC__
  opt_in_to_shared_memory("wgmma", kernel, tile.min_blocks_per_sm > 1);
  smem::launch_kernel("wgmma", kernel, geometry, device, &params);
#else
  smem::launch("wgmma", reinterpret_cast<void (*)(GemmParams<T>)>(const_cast<void*>(kernel)),
               geometry, device, params);
#endif
}

template <typename T>
void launch_gemm(const Problem& problem, const Plan& plan, const void* a, const void* b,
                 float* partials, bool launch_with_pdl, const Device& device) {
  const TileConfig& tile = TILES[plan.tile].config;
  const auto batch_count = static_cast<uint32_t>(inner_batch_count(problem));
  GemmParams<T> params{};
  const int64_t unit = plan.a.major == Major::K ? 1 : 16 / static_cast<int64_t>(sizeof(T));
  const auto extent_of = [](int64_t size, int64_t step, int64_t end) {
    return LoadExtent{.size = static_cast<int>(size),
                      .step = static_cast<int>(step),
                      .last_size = static_cast<int>(end % step),
                      .end = static_cast<int>(end)};
  };
  // In a cluster some blocks may have no rows of A at all, so all of them load whole tiles.
  const int64_t rows =
      tile.cluster_m > 1 ? tile.tile_m : std::min<int64_t>(round_up(problem.M, unit), tile.tile_m);
  params.a_extent = extent_of(rows, rows, problem.M);
  params.b_extent = extent_of(plan.loaded_columns(), plan.tile_n, problem.N);
  make_operand_maps(params.a, plan.a, problem.dtype, a, tile.tile_m, params.a_extent, 1);
  make_operand_maps(params.b, plan.b, problem.dtype, b, tile.stage_n, params.b_extent,
                    tile.cluster_m);
  params.store_mode = plan.store_mode;
  params.log2_box_vecs = plan.log2_box_vecs;
  if (plan.store_mode == StoreMode::tma) {
    const auto store_map = [&](const void* data) {
      const TensorShape shape{.dtype = problem.dtype,
                              .data = data,
                              .x = problem.N,
                              .y = problem.M,
                              .z = batch_count,
                              .y_stride = problem.out.row_stride,
                              .z_stride = batch_count > 1 ? problem.batch.stride[OUT][0] : 8};
      const int box_rows = problem.dtype == DType::f32 ? FLOAT_BOX_ROWS : STAGING_ROWS;
      return make_tensor_map(shape, 8 << params.log2_box_vecs, box_rows);
    };
    params.out = store_map(problem.out.data);
    if (problem.pre) params.pre = store_map(problem.pre);
  }
  const auto k_tiles = static_cast<uint32_t>(ceil_div(problem.K, TILE_K<T>));
  params.scheduler =
      TileScheduler(static_cast<uint32_t>(ceil_div(problem.M, tile.tile_m * tile.cluster_m)),
                    static_cast<uint32_t>(plan.tile_columns(problem.N)),
                    static_cast<uint32_t>(plan.split_k_slices), batch_count,
                    static_cast<uint32_t>(plan.swizzle_size), k_tiles,
                    plan.split_k_slices > 1 ? static_cast<uint32_t>(plan.accum_interval) : k_tiles);
  if (plan.dynamic_scheduler) params.scheduler.counter = tile_counter(device);
  params.accum_interval = plan.accum_interval;
  params.transposed = plan.transposed;
  params.epilogue = epilogue_of<T>(plan.transposed ? transposed(problem) : problem);
  params.strides = batch_strides(problem);
  params.partials = partials;
  params.partial_pitch = partial_pitch(params.epilogue.out.cols);
  params.tile_n = plan.tile_n;
  params.overlaps = plan.overlaps;
  params.a_batched = plan.a.batched;
  params.b_batched = plan.b.batched;

  launch_tile(kernel_function(problem.dtype, plan), plan, params, launch_with_pdl, device);
}

/// Up to this expected time the product begins while its operands are packed, which saves 3 to 4%.
/// Blocks that begin as SMs become free are no neighbours, so a longer product reads more from
/// DRAM: 142 x 6144 x 21,504 took 153 us instead of 116.
constexpr double MAX_MICROSECONDS_BESIDE_PACK = 24;

/// Launches a problem with at most one batch dimension.
void launch_inner(const Problem& original, const Plan& plan, WorkspaceAllocator workspace,
                  const Device& device) {
  const Problem problem = plan.transposed ? transposed(original) : original;
  const auto [a, b] = pack_operands(
      problem, plan.a, plan.b, plan.microseconds < MAX_MICROSECONDS_BESIDE_PACK, workspace, device);
  const bool launch_with_pdl = plan.a.packed || plan.b.packed;
  auto* partials = static_cast<float*>(workspace.allocate(0));
  if (problem.dtype == DType::f32) {
    launch_gemm<float>(problem, plan, a, b, partials, launch_with_pdl, device);
  } else if (problem.dtype == DType::f16) {
    launch_gemm<half>(problem, plan, a, b, partials, launch_with_pdl, device);
  } else {
    launch_gemm<bfloat16>(problem, plan, a, b, partials, launch_with_pdl, device);
  }
  if (plan.split_k_slices > 1) {
    reduce_split_k(original, inner_batch_count(problem), plan.split_k_slices, partials, device);
  }
}

}  // namespace

const void* kernel_function(DType dtype, const Plan& plan) {
  return kernel_of(plan, dtype, std::make_integer_sequence<int, TILE_COUNT>());
}

void launch(const Problem& problem, const Plan& plan, void* workspace, const Device& device) {
  for_each_launch(problem, [&](const Problem& inner) {
    launch_inner(inner, plan, {static_cast<unsigned char*>(workspace)}, device);
  });
}

}  // namespace smem::gemm::sm90::inline SMEM_BUILD
