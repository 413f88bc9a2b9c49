// What becomes of a warp's sums before they leave: alpha, the bias, the activation, and rounding to
// pairs of elements, which take half the registers.
#pragma once

#include "gemm/sm90/epilogue_tma.h"

namespace smem::gemm::sm90 {
inline namespace SMEM_BUILD {

/// Of 16 rows, sum i of a lane stands in row lane / 4, or eight below where i & 2, and in column
/// 8 (i / 4) + 2 (lane % 4) + i % 2. Each step is a pass of its own over all sums, so that code
/// which does not run is not loaded either.
template <typename T, int COUNT>
struct Finish {
  const Epilogue<T>& epilogue;
  float (&sums)[COUNT];

  __device__ __forceinline__ void multiply_by_alpha() const {
#pragma unroll
    for (float& sum : sums) sum = rounded_product(epilogue.alpha, sum);
  }

  /// A lane loads the bias of two columns of each 64 and gets that of its own from four others:
  /// loaded by every lane for itself, it takes 8 times as many loads, 7 us at 4096^3.
  __device__ __forceinline__ void add_bias(int first_col) const {
    constexpr int PARTS = COUNT / (STAGING_COLS / 2), GROUPS = STAGING_COLS / 8;
    const int lane = threadIdx.x % WARP, last = static_cast<int>(epilogue.out.cols) - 1;
    Vector<T, 2> loaded[PARTS];
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
      const int col = first_col + part * STAGING_COLS + 2 * lane;
      loaded[part].lane[0] = load(epilogue.bias + min(col, last) * epilogue.bias_stride);
      loaded[part].lane[1] = load(epilogue.bias + min(col + 1, last) * epilogue.bias_stride);
    }
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
      const auto mine = reinterpret_cast<const uint32_t&>(loaded[part]);
#pragma unroll
      for (int group = 0; group < GROUPS; ++group) {
        const uint32_t pair = __shfl_sync(~0u, mine, 4 * group + lane % 4);
        const auto& bias = reinterpret_cast<const Vector<T, 2>&>(pair);
        const float low = to_accumulator(bias.lane[0]), high = to_accumulator(bias.lane[1]);
        float* const four = &sums[4 * (part * GROUPS + group)];
        four[0] += low;
        four[1] += high;
        four[2] += low;
        four[3] += high;
      }
    }
  }

  __device__ __forceinline__ void relu() const {
#pragma unroll
    for (float& sum : sums) sum = activate(Activation::relu, sum);
  }

  /// The rounded sums from `first` on.
  template <int PAIRS>
  __device__ __forceinline__ void round(int first, uint32_t* pairs) const {
#pragma unroll
    for (int i = 0; i < PAIRS; ++i) {
      pairs[i] = pack<T>(sums[first + 2 * i], sums[first + 2 * i + 1]);
    }
  }

  /// The same of their activations, of all sums; ACTIVATION is a constant, so that many of them can
  /// overlap. Of many sums it is the work of a loop, through which the other half moves to where
  /// the first one was: unrolled, a gelu of 128 is 40 KB of code, more than an SM keeps.
  template <Activation ACTIVATION>
  __device__ __forceinline__ void activate_and_round(uint32_t (&pairs)[COUNT / 2]) const {
    constexpr int PART = COUNT >= 64 ? COUNT / 2 : COUNT;
    const auto y = [](float z) { return activate_approximate(ACTIVATION, z); };
#pragma unroll 1
    for (int part = 0; part < COUNT; part += PART) {
      uint32_t rounded[PART / 2];
#pragma unroll
      for (int i = 0; i < PART / 2; ++i) rounded[i] = pack<T>(y(sums[2 * i]), y(sums[2 * i + 1]));
#pragma unroll
      for (int i = 0; i < COUNT - PART; ++i) sums[i] = sums[i + PART];
#pragma unroll
      for (int i = 0; i < PART / 2; ++i) sums[COUNT - PART + i] = __uint_as_float(rounded[i]);
    }
#pragma unroll
    for (int i = 0; i < COUNT / 2; ++i) {
      pairs[i] = __float_as_uint(sums[i / (PART / 2) * PART + i % (PART / 2)]);
    }
  }
};

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::sm90
