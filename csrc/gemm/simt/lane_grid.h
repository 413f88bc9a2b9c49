// The grid of LANES_M x LANES_N lanes that a warp forms to read fragments from shared memory: lanes
// with the same m read the same values of A, those with the same n the same values of B.
//
// A warp's 16-byte load takes two passes through the banks if lanes 2 i and 2 i + 1, or lanes i and
// i ^ 2, read the same address, and four otherwise. So bit 0 of the lane belongs to n and bit 1 to
// m, and both operands are read in two passes:
//
//   LANES_M = 8, LANES_N = 4    bit of the lane   4   3   2   1   0
//                               which is          m2  m1  n1  m0  n0
#pragma once

#include "device/platform.h"

namespace smem::gemm::simt::inline SMEM_BUILD {

template <int LANES_M>
struct LaneGrid {
  static constexpr int LANES_N = 32 / LANES_M;
  static constexpr bool IS_LINE = LANES_M == 1 || LANES_N == 1;

  static_assert(LANES_M * LANES_N == 32, "the bits of a lane are shared out");

  __device__ __forceinline__ static int lane_at(unsigned m, unsigned n) {
    if constexpr (IS_LINE) return m * LANES_N + n;
    return n % 2 + m % 2 * 2 + n / 2 * 4 + m / 2 * (2 * LANES_N);
  }
  __device__ __forceinline__ static int m_of(unsigned lane) {
    if constexpr (IS_LINE) return lane / LANES_N;
    return lane / 2 % 2 + lane / (2 * LANES_N) * 2;
  }
  __device__ __forceinline__ static int n_of(unsigned lane) {
    if constexpr (IS_LINE) return lane % LANES_N;
    return lane % 2 + lane % (2 * LANES_N) / 4 * 2;
  }
};

}  // namespace smem::gemm::simt::inline SMEM_BUILD
