// Stands for CUB's header of that name: scans of a warp, or of groups of its lanes, by shuffles.
#pragma once

#include "warp_shuffle.cuh"

namespace cub {

template <typename T, int LANES = 32>
class WarpScan {
 public:
  struct TempStorage {};

  SMEM_MATH WarpScan(TempStorage&) {}

  template <typename Operation>
  SMEM_MATH void InclusiveScan(T input, T& output, Operation operation) {
    const unsigned mask = smem_group_mask<LANES>(), lane = smem_lane();
    const int rank = static_cast<int>(lane % LANES);
    for (int offset = 1; offset < LANES; offset *= 2) {
      const T before = smem_shuffle_any(mask, input, rank >= offset ? lane - offset : lane);
      if (rank >= offset) input = operation(before, input);
    }
    output = input;
  }
  template <typename Operation>
  SMEM_MATH void InclusiveScan(T input, T& output, Operation operation, T& aggregate) {
    InclusiveScan(input, output, operation);
    aggregate = Broadcast(output, LANES - 1);
  }
  template <typename Operation>
  SMEM_MATH void ExclusiveScan(T input, T& output, T initial, Operation operation) {
    T inclusive;
    InclusiveScan(input, inclusive, operation);
    const unsigned lane = smem_lane(), rank = lane % LANES;
    const T before = smem_shuffle_any(smem_group_mask<LANES>(), inclusive, rank ? lane - 1 : lane);
    output = rank ? operation(initial, before) : initial;
  }
  SMEM_MATH void InclusiveSum(T input, T& output) { InclusiveScan(input, output, cub::Sum()); }
  SMEM_MATH void InclusiveSum(T input, T& output, T& aggregate) {
    InclusiveScan(input, output, cub::Sum(), aggregate);
  }
  SMEM_MATH void ExclusiveSum(T input, T& output) { ExclusiveScan(input, output, T(), cub::Sum()); }
  SMEM_MATH void ExclusiveSum(T input, T& output, T& aggregate) {
    T inclusive;
    InclusiveScan(input, inclusive, cub::Sum(), aggregate);
    ExclusiveSum(input, output);
  }
  SMEM_MATH T Broadcast(T input, unsigned source) {
    return smem_shuffle_any(smem_group_mask<LANES>(), input, smem_lane() / LANES * LANES + source);
  }
};

}  // namespace cub
