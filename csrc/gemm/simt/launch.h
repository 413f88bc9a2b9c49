// Launches a plan for one element type.
#pragma once

#include <cstddef>
#include <utility>

#include "gemm/simt/heuristics.h"
#include "gemm/simt/kernel.h"
#include "gemm/simt/kernel_ldg.h"
#include "gemm/simt/kernel_warps_k.h"
#include "gemm/simt/pack.h"
#include "gemm/simt/reduce_split_k.h"

namespace smem::gemm::simt::inline SMEM_BUILD {

template <typename T, int TILE, LayoutPair LAYOUTS>
void launch_kernel(const SimtParams& params, const Device& device) {
  const int64_t blocks =
      int64_t{params.tiles_m} * params.tiles_n * params.batch_count * params.split_k.slices;
  // Only simt_kernel waits for a pack: the direct kernels read any layout, so they have none.
  const bool is_packed = params.padded_a || params.padded_b;
  const auto launch_with = [&](auto* kernel, int threads, size_t shared_bytes) {
    launch("simt", kernel,
           Geometry{blocks, dim3(static_cast<unsigned>(threads)), shared_bytes, is_packed}, device,
           params);
  };
  constexpr size_t MAX_BYTES =
      TILES[TILE].shared_bytes(sizeof(T));  // that the heuristics reckon with
  if constexpr (LAYOUTS == LayoutPair::ldg) {
    using Storage = LdgStorage<T, TILE>;
    static_assert(sizeof(Storage) <= MAX_BYTES, "the heuristics know what fits");
    launch_with(simt_ldg_kernel<T, TILE>, TILES[TILE].threads(), sizeof(Storage));
  } else if constexpr (LAYOUTS == LayoutPair::by_warp) {
    using Storage = WarpsKStorage<T, TILE>;
    static_assert(sizeof(Storage) <= MAX_BYTES, "the heuristics know what fits");
    const int warps = warps_for(TILES[TILE], params.problem.K);
    launch_with(simt_warps_k_kernel<T, TILE>, 32 * warps,
                offsetof(Storage, stages) + warps * sizeof(typename Storage::Stage));
  } else {
    using Storage = SharedStorage<T, TILE, LAYOUTS>;
    static_assert(sizeof(Storage) <= MAX_BYTES, "the heuristics know what fits");
    launch_with(simt_kernel<T, TILE, LAYOUTS>, TILES[TILE].threads(), sizeof(Storage));
  }
}

/// Launches the kernel of the plan's tile and layouts: searches the kernels from TILE and PAIR on.
template <typename T, int TILE = 0, int PAIR = 0>
void launch_tile(const SimtPlan& plan, const SimtParams& params, const Device& device) {
  if constexpr (TILE < TILE_COUNT && PAIR < static_cast<int>(std::size(LAYOUT_PAIRS))) {
    constexpr LayoutPair LAYOUTS = LAYOUT_PAIRS[PAIR].pair;
    if (plan.tile != TILE) return launch_tile<T, TILE + 1>(plan, params, device);
    if (plan.layouts != LAYOUTS) return launch_tile<T, TILE, PAIR + 1>(plan, params, device);
    if constexpr (has_kernel(TILE, LAYOUTS, sizeof(T))) {
      launch_kernel<T, TILE, LAYOUTS>(params, device);
    }
  }
}

/// The parameters for packing an operand X(mn, k) to MN-major at `to`. Sets the operand's batch
/// stride in `problem` to that of the packed matrices.
template <typename T>
PackParams<T> pack_operand(Problem& problem, Tensor tensor, const Operand& X, int64_t extent,
                           unsigned char* to) {
  const int64_t matrices = matrices_of(problem, tensor), pitch = packed_pitch(extent);
  int64_t stride = 0;
  if (matrices > 1) {
    stride = std::exchange(problem.batch.stride[tensor][0], pitch * problem.K);
  }
  const Matrix<const T> from{static_cast<const T*>(X.data), extent, problem.K, X.row_stride,
                             X.col_stride};
  return {.from = from,
          .to = reinterpret_cast<T*>(to),
          .pitch = pitch,
          .batch_count = matrices,
          .batch_stride = stride};
}

/// The kernel of large problems.
template <typename T>
const void* large_kernel() {
  return reinterpret_cast<const void*>(simt_kernel<T, TILE_128X128, LayoutPair::both_mn_major>);
}

template <typename T>
void launch_plan(const Problem& problem, const SimtPlan& plan, const Device& device) {
  const TileConfig& tile = TILES[plan.tile];
  const int64_t batch_count = problem.batch.count();
  SimtParams params{
      .problem = problem,
      .split_k = plan.split_k,
      .tiles_m = static_cast<unsigned>(ceil_div(problem.M, tile.rows())),
      .tiles_n = static_cast<unsigned>(ceil_div(problem.N, tile.cols(sizeof(T)))),
      .batch_count = static_cast<unsigned>(batch_count),
      .swizzle_size = plan.swizzle_size,
      .padded_a = plan.pack_a,
      .padded_b = plan.pack_b,
  };
  const SimtWorkspace workspace = workspace_of(problem, plan);
  auto* const memory = static_cast<unsigned char*>(problem.workspace);
  PackParams<T> a{}, b{};
  if (plan.pack_a) {
    a = pack_operand<T>(params.problem, Tensor::A, problem.a, problem.M, memory);
    params.problem.a = {a.to, 1, a.pitch};
  }
  if (plan.pack_b) {
    const Operand transposed{problem.b.data, problem.b.col_stride, problem.b.row_stride};
    b = pack_operand<T>(params.problem, Tensor::B, transposed, problem.N, memory + workspace.a);
    params.problem.b = {b.to, b.pitch, 1};
  }
  if (plan.pack_a || plan.pack_b) pack(a, b, device);
  params.problem.workspace = memory + workspace.a + workspace.b;

  launch_tile<T>(plan, params, device);
  if (plan.split_k.unit == PartialUnit::none) return;
  const int64_t elements = batch_count * problem.M * problem.N;
  // Per element. Where the elements are few, too, a thread for each would leave the GPU idle.
  constexpr int64_t FEW_ELEMENTS = 1 << 15;
  const int64_t few_partials = elements < FEW_ELEMENTS ? 16 : 64;
  const auto partials = static_cast<int64_t>(workspace.partials / sizeof(T)) / elements;
  if (partials <= few_partials) {
    launch("simt reduce", simt_reduce_kernel<T>,
           Geometry{ceil_div(elements, REDUCE_THREADS), dim3(REDUCE_THREADS), 0, true}, device,
           params);
  } else {
    launch("simt reduce", simt_reduce_long_kernel<T>,
           Geometry{ceil_div(elements, REDUCE_LANES), dim3(REDUCE_THREADS), 0, true}, device,
           params);
  }
}

}  // namespace smem::gemm::simt::inline SMEM_BUILD
