// How the kernel gemv divides K among chains of additions, and the parameters of a launch.
#pragma once

#include "gemm/gemm.h"

namespace smem::gemm::gemv {

constexpr int MAX_WARPS = 8;  ///< of a block

/// Whether `auto` takes the kernel. It depends on the layout, N, K, the dtype and the precision
/// alone, so the bits do not depend on M.
inline bool is_chosen(const Problem& problem) {
  constexpr int64_t MIN_K = 32;
  return problem.N == 1 && problem.K >= MIN_K && problem.a.col_stride == 1 &&
         problem.dtype != DType::f64 && problem.precision != Precision::ieee;
}

/// The division of K. It depends on K and the size of an element alone.
struct KDivision {
  int lanes = 4, warps = 1;  ///< that divide a row, powers of two
  int64_t slice_length;
  int slices;

  constexpr KDivision(int64_t K, size_t element_bytes) {
    constexpr int64_t WARP = 32, MIN_LANE_ROUNDS = 3, MIN_ROUNDS = 4, ROUNDS_PER_SLICE = 8;
    const auto width = static_cast<int64_t>(16 / element_bytes);
    const int64_t vectors = ceil_div(K, width);
    // Short rows by few lanes: their sums and the results cost as much as the products.
    while (lanes < WARP && vectors > MIN_LANE_ROUNDS * lanes) lanes *= 2;
    while (warps < MAX_WARPS && vectors > MIN_ROUNDS * WARP * warps) warps *= 2;
    slice_length = ROUNDS_PER_SLICE * MAX_WARPS * WARP * width;
    slices = static_cast<int>(ceil_div(K, slice_length));
  }
};

struct GemvParams {
  Problem problem;  ///< with at most one batch dimension
  KDivision division;
  bool stages_b;    ///< b is copied to shared memory, a slice at a time
  bool splits_k;    ///< a block computes one slice of K
  float* partials;  ///< of reduce_split_k.h, if `splits_k`: a row has `partial_pitch` of them
  int64_t partial_pitch;
  unsigned row_tiles;  ///< per matrix of the batch
};

}  // namespace smem::gemm::gemv
