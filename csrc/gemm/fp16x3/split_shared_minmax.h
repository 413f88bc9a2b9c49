// The AbsMinMax of neighbouring rows in shared memory.
#pragma once

#include "device/tile.h"
#include "gemm/fp16x3/scale.h"

namespace smem::gemm::fp16x3::split::inline SMEM_BUILD {

/// The AbsMinMax of ROWS rows as each of WARPS warps has found them: three planes per warp.
template <int WARPS, int ROWS>
struct SharedMinMax {
  Tile<uint32_t, 3 * WARPS, ROWS> planes;

  /// Stores those of VEC_SIZE rows from `row` on.
  __device__ __forceinline__ void store(int warp, int row, const AbsMinMax (&minmax)[VEC_SIZE]) {
    Vector<uint32_t, VEC_SIZE> amax, amin, second;
#pragma unroll
    for (int i = 0; i < VEC_SIZE; ++i) {
      amax.lane[i] = minmax[i].amax;
      amin.lane[i] = minmax[i].amin_minus_one;
      second.lane[i] = minmax[i].second_amin_minus_one;
    }
    store_vector<VEC_SIZE>(planes.at(3 * warp, row), amax);
    store_vector<VEC_SIZE>(planes.at(3 * warp + 1, row), amin);
    store_vector<VEC_SIZE>(planes.at(3 * warp + 2, row), second);
  }
  __device__ __forceinline__ void merge_into(AbsMinMax (&minmax)[VEC_SIZE], int warp,
                                             int row) const {
    const auto amax = load_vector<VEC_SIZE>(planes.at(3 * warp, row));
    const auto amin = load_vector<VEC_SIZE>(planes.at(3 * warp + 1, row));
    const auto second = load_vector<VEC_SIZE>(planes.at(3 * warp + 2, row));
#pragma unroll
    for (int i = 0; i < VEC_SIZE; ++i) {
      minmax[i].merge({amax.lane[i], amin.lane[i], second.lane[i]});
    }
  }

  /// That of one row over all warps.
  __device__ __forceinline__ AbsMinMax over_warps(int row) const {
    AbsMinMax minmax;
#pragma unroll
    for (int warp = 0; warp < WARPS; ++warp) {
      minmax.merge({planes(3 * warp, row), planes(3 * warp + 1, row), planes(3 * warp + 2, row)});
    }
    return minmax;
  }
};

}  // namespace smem::gemm::fp16x3::split::inline SMEM_BUILD
