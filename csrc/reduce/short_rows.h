// Rows of up to 256 elements: several rows per warp.
//
// Threads: a row is read by 4, 8, 16 or 32 lanes, so a warp covers 32 / lanes_per_row rows at once.
// Each lane loads its part of GROUPS * ROWS_PER_LANE rows before it adds any of them, so that as
// many loads are in flight as for long rows. A reduce-scatter over the lanes combines ROWS_PER_LANE
// rows at once.
//
// Order of additions: reduce/reduction_tree.h. The constants below may be tuned.
#pragma once

#include <algorithm>
#include <bit>

#include "device/pdl.h"
#include "reduce/element_type.h"
#include "reduce/store.h"
#include "reduce/tile_reduce.h"

namespace smem::reduce::inline SMEM_BUILD {

/// ROWS_PER_LANE rows are combined by one reduce-scatter. A block processes several rounds of rows:
/// at most MAX_SUBWARP_ROUNDS if a row takes fewer lanes than a warp has, else at most
/// MAX_WARP_ROUNDS.
constexpr int ROWS_PER_LANE = 4, MAX_SUBWARP_ROUNDS = 3, MAX_WARP_ROUNDS = 8;

struct ShortRowsParams {
  Problem problem;
  int lanes_per_row;  ///< a power of two, at least ROWS_PER_LANE
  int rounds;
};

/// VEC: elements per load. VECTORS: loads per lane and row.
template <typename T, typename Op, int VEC, int VECTORS>
__global__ void __launch_bounds__(THREADS, 3)
    short_rows_kernel(const __grid_constant__ ShortRowsParams params) {
  constexpr int LEVEL = std::bit_width(unsigned{VEC}) - 1;
  constexpr int GROUPS = std::max(1, LOADS_IN_FLIGHT / (ROWS_PER_LANE * VECTORS));
  const Problem& problem = params.problem;
  const int lanes = params.lanes_per_row, lane = threadIdx.x % lanes, rows_per_warp = 32 / lanes;
  const int64_t warp = int64_t{blockIdx.x} * WARPS + threadIdx.x / 32;
  const int64_t stride = VEC > 1 ? 1 : problem.reduced.stride[0][0];
  const bool one_loop = problem.outputs.rank <= 1;
  const OrderTransform<T, Op> transform(problem);

  launch_dependent_grids();
  wait_on_dependent_grids();
  for (int round = 0; round < params.rounds; ++round) {
    const int64_t first_row =
        (warp * params.rounds + round) * GROUPS * ROWS_PER_LANE * rows_per_warp +
        threadIdx.x % 32 / lanes;
    Loaded<T, VEC> loaded[GROUPS][ROWS_PER_LANE][VECTORS];
#pragma unroll
    for (int r = 0; r < GROUPS * ROWS_PER_LANE; ++r) {
      const int64_t row = first_row + r * rows_per_warp;
      if (row < problem.output_count) {
        const T* const begin = static_cast<const T*>(problem.in) +
                               (one_loop ? row * problem.outputs.stride[IN][0]
                                         : call_offsets_at(problem.outputs, row).of[IN]);
#pragma unroll
        for (int j = 0; j < VECTORS; ++j) {
          const int i = (j * lanes + lane) * VEC;
          if (i < problem.count) {
            loaded[r / ROWS_PER_LANE][r % ROWS_PER_LANE][j] = load_words<VEC>(begin + i * stride);
          }
        }
      }
    }
#pragma unroll
    for (int g = 0; g < GROUPS; ++g) {
      Partial<Op, T> partials[VECTORS] = {};
#pragma unroll
      for (int j = 0; j < VECTORS; ++j) {
        const bool exists = (j * lanes + lane) * VEC < problem.count;
        ThreadPartial<T> row_partials[ROWS_PER_LANE];
#pragma unroll
        for (int r = 0; r < ROWS_PER_LANE; ++r) {
          ThreadPartials<T, Op, VEC> thread_partials;
          if (exists) thread_partials.init(loaded[g][r][j].elements(), transform);
          row_partials[r] = thread_partials.reduce();
        }
        partials[j] = warp_reduce_widening<Op, T, LEVEL>(warp_reduce_scatter<Op>(row_partials),
                                                         lanes, ROWS_PER_LANE);
      }
      const int64_t row = first_row + (g * ROWS_PER_LANE + lane) * rows_per_warp;
      if (lane < ROWS_PER_LANE && row < problem.output_count) {
        const Partial<Op, T> identity = Op::template identity<Partial<Op, T>>();
        store_result(problem, row, 0,
                     transform.invert(Op::combine(identity, tree_reduce<Op>(partials))));
      }
    }
  }
}

}  // namespace smem::reduce::inline SMEM_BUILD
