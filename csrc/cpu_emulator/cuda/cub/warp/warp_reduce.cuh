// Stands for CUB's header of that name: reductions of a warp, or of groups of its lanes, by
// shuffles. The first lane of a group has the result, as in CUB.
#pragma once

#include "warp_shuffle.cuh"

namespace cub {

/// Reduces a group of `lanes` lanes, of which this one is number `rank` and the first `valid` have
/// a value.
template <typename T, typename Operation>
SMEM_MATH T smem_reduce_lanes(T input, Operation operation, int lanes, int rank, int valid) {
  const int lane = static_cast<int>(smem_lane());
  const unsigned mask = lanes == 32 ? SMEM_ALL_LANES : ((1u << lanes) - 1) << (lane - rank);
  for (int offset = 1; offset < lanes; offset *= 2) {
    const bool inside = rank + offset < lanes;
    const T other = smem_shuffle_any(mask, input, inside ? lane + offset : lane);
    if (inside && rank + offset < valid) input = operation(input, other);
  }
  return input;
}

template <typename T, int LANES = 32>
class WarpReduce {
 public:
  struct TempStorage {};

  SMEM_MATH WarpReduce(TempStorage&) {}

  SMEM_MATH T Sum(T input) { return Reduce(input, cub::Sum()); }
  SMEM_MATH T Sum(T input, int valid) { return Reduce(input, cub::Sum(), valid); }
  template <typename Operation>
  SMEM_MATH T Reduce(T input, Operation operation) {
    return Reduce(input, operation, LANES);
  }
  /// Of the first `valid` lanes.
  template <typename Operation>
  SMEM_MATH T Reduce(T input, Operation operation, int valid) {
    return smem_reduce_lanes(input, operation, LANES, static_cast<int>(smem_lane() % LANES), valid);
  }
};

}  // namespace cub
