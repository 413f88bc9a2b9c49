// Launches a plan for an element type.
#pragma once

#include <utility>

#include "gemm/simt/kernel.h"
#include "gemm/simt/pack.h"
#include "gemm/simt/heuristics.h"
#include "gemm/simt/reduce_split_k.h"

namespace smem::gemm::simt {
inline namespace SMEM_BUILD {

template <typename T, int TILE, int TOLD_AS>
void launch_tile(const Arguments& arguments, const Device& device) {
  using On = Threads<T, TILE>;
  static_assert(sizeof(Shared<T, TILE, TOLD_AS>) <= TILES[TILE].shared_bytes(sizeof(T)),
                "a plan knows what fits");
  const int64_t blocks =
      int64_t{arguments.tiles_m} * arguments.tiles_n * arguments.members * arguments.cut.parts;
  launch("simt", simt_kernel<T, TILE, TOLD_AS>,
         Geometry{blocks, dim3(On::THREADS), sizeof(Shared<T, TILE, TOLD_AS>)}, device, arguments);
}

template <typename T, int TILE = 0, int TOLD_AS = 0>
void launch_blocks(const Plan& plan, const Arguments& arguments, const Device& device) {
  if constexpr (TILE < TILE_COUNT && TOLD_AS < TOLD_COUNT) {
    if (plan.tile != TILE) return launch_blocks<T, TILE + 1>(plan, arguments, device);
    if (plan.told != TOLD_AS) return launch_blocks<T, TILE, TOLD_AS + 1>(plan, arguments, device);
    if constexpr (has_kernel(TILE, TOLD_AS, sizeof(T))) {
      launch_tile<T, TILE, TOLD_AS>(arguments, device);
    }
  }
}

/// Of X(e, k) into rows along e; `problem` has the packed matrices then.
template <typename T>
Packing<T> pack_operand(Problem& problem, Tensor tensor, const Operand& X, int64_t extent,
                        unsigned char* to) {
  const int64_t members = matrices_of(problem, tensor), pitch = packed_pitch(extent);
  int64_t stride = 0;
  if (members > 1) {
    stride = std::exchange(problem.batch.stride[tensor][0], pitch * problem.K);
  }
  const Matrix<const T> from{static_cast<const T*>(X.data), extent, problem.K, X.row_stride,
                             X.col_stride};
  return {from, reinterpret_cast<T*>(to), pitch, members, stride};
}

/// That of a large problem.
template <typename T>
const void* large_kernel() {
  return reinterpret_cast<const void*>(simt_kernel<T, TILE_128X128, BOTH_ALONG_E>);
}

template <typename T>
void launch_plan(const Problem& problem, const Plan& plan, const Device& device) {
  const TileShape& tile = TILES[plan.tile];
  const int64_t members = problem.batch.count();
  Arguments arguments{problem,
                      plan.cut,
                      static_cast<unsigned>(ceil_div(problem.M, tile.rows())),
                      static_cast<unsigned>(ceil_div(problem.N, tile.cols(sizeof(T)))),
                      static_cast<unsigned>(members),
                      plan.strip,
                      plan.pack_a,
                      plan.pack_b};
  const Workspace workspace = workspace_of(problem, plan);
  auto* const memory = static_cast<unsigned char*>(problem.workspace);
  Packing<T> a{}, b{};
  if (plan.pack_a) {
    a = pack_operand<T>(arguments.problem, Tensor::A, problem.a, problem.M, memory);
    arguments.problem.a = {a.to, 1, a.pitch};
  }
  if (plan.pack_b) {
    const Operand turned{problem.b.data, problem.b.col_stride, problem.b.row_stride};
    b = pack_operand<T>(arguments.problem, Tensor::B, turned, problem.N, memory + workspace.a);
    arguments.problem.b = {b.to, b.pitch, 1};
  }
  if (plan.pack_a || plan.pack_b) pack(a, b, device);
  arguments.problem.workspace = memory + workspace.a + workspace.b;

  launch_blocks<T>(plan, arguments, device);
  if (plan.cut.by == Unit::none) return;
  const int64_t elements = members * problem.M * problem.N;
  constexpr int64_t FEW_UNITS = 64, THREADS = REDUCE_LANES * REDUCE_WARPS;
  const auto units = static_cast<int64_t>(workspace.sums / sizeof(T)) / elements;
  if (units <= FEW_UNITS) {
    launch("simt reduce", simt_reduce_kernel<T>,
           Geometry{ceil_div(elements, THREADS), dim3(THREADS)}, device, arguments);
  } else {
    launch("simt reduce", simt_reduce_long_kernel<T>,
           Geometry{ceil_div(elements, REDUCE_LANES), dim3(THREADS)}, device, arguments);
  }
}

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::simt
