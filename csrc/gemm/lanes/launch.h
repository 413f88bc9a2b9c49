// Launches a plan for an element type.
#pragma once

#include "gemm/lanes/kernel.h"
#include "gemm/lanes/pack.h"
#include "gemm/lanes/plan.h"
#include "gemm/lanes/reduce.h"

namespace smem::gemm::lanes {
inline namespace SMEM_BUILD {

template <typename T, int TILE, Lies LIES_A, Lies LIES_B>
void launch_tile(const Arguments& arguments, const Device& device) {
  using On = Threads<T, TILE>;
  static_assert(sizeof(Shared<T, TILE, LIES_A, LIES_B>) <= TILES[TILE].shared_bytes(sizeof(T)),
                "a plan knows what fits");
  const int64_t blocks =
      int64_t{arguments.tiles_m} * arguments.tiles_n * arguments.members * arguments.cut.parts;
  launch("simt", simt_kernel<T, TILE, LIES_A, LIES_B>,
         Geometry{blocks, dim3(On::THREADS), sizeof(Shared<T, TILE, LIES_A, LIES_B>)}, device,
         arguments);
}

template <typename T, int TILE = 0>
void launch_blocks(const Plan& plan, const Arguments& arguments, const Device& device) {
  if constexpr (TILE < TILE_COUNT) {
    if (plan.tile != TILE) return launch_blocks<T, TILE + 1>(plan, arguments, device);
    if (plan.tells) return launch_tile<T, TILE, told(TILE).a, told(TILE).b>(arguments, device);
    launch_tile<T, TILE, Lies::any, Lies::any>(arguments, device);
  }
}

/// X(e, k) as rows along k of `pitch` elements each.
template <typename T>
const void* packed(const Operand& X, int64_t extent, int64_t K, unsigned char* to,
                   const Device& device) {
  pack<T>({{static_cast<const T*>(X.data), extent, K, X.row_stride, X.col_stride},
           reinterpret_cast<T*>(to),
           packed_pitch(extent)},
          device);
  return to;
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
  if (plan.pack_a) {
    const int64_t pitch = packed_pitch(problem.M);
    arguments.problem.a = {packed<T>(problem.a, problem.M, problem.K, memory, device), 1, pitch};
  }
  if (plan.pack_b) {
    const int64_t pitch = packed_pitch(problem.N);
    const Operand turned{problem.b.data, problem.b.col_stride, problem.b.row_stride};
    arguments.problem.b = {packed<T>(turned, problem.N, problem.K, memory + workspace.a, device),
                           pitch, 1};
  }
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
}  // namespace smem::gemm::lanes
