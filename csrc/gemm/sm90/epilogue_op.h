// What the epilogue computes on a warp's accumulators: alpha, the bias, the activation, and the
// rounding to packed pairs of 16-bit elements, which take half the registers.
#pragma once

#include "gemm/sm90/epilogue_tma.h"

namespace smem::gemm::sm90::inline SMEM_BUILD {

/// The accumulators of 16 rows, in the layout of wgmma: accumulator i of a lane is in row lane / 4,
/// or eight rows below if i & 2, and in column 8 (i / 4) + 2 (lane % 4) + i % 2. Each operation is
/// a pass over all accumulators, so that the code of an operation that is not used is not fetched.
template <typename T, int COUNT>
struct EpilogueOp {
  const Epilogue<T>& epilogue;
  float (&accum)[COUNT];

  __device__ __forceinline__ void multiply_by_alpha() const {
#pragma unroll
    for (float& value : accum) value = rounded_product(number_of(epilogue.alpha), value);
  }

  /// Each lane loads the bias of two columns of every 64 and gets that of its own columns from four
  /// other lanes. If every lane loaded its own, there would be 8 times as many loads, which take 7
  /// us at 4096^3.
  __device__ __forceinline__ void add_bias(int first_col) const {
    constexpr int SUBTILES = COUNT / (STAGING_COLS / 2), GROUPS = STAGING_COLS / 8;
    const int lane = threadIdx.x % WARP, last = static_cast<int>(epilogue.out.cols) - 1;
    Vector<T, 2> loaded[SUBTILES];
#pragma unroll
    for (int subtile = 0; subtile < SUBTILES; ++subtile) {
      const int col = first_col + subtile * STAGING_COLS + 2 * lane;
      loaded[subtile].lane[0] = epilogue.bias[min(col, last) * epilogue.bias_stride];
      loaded[subtile].lane[1] = epilogue.bias[min(col + 1, last) * epilogue.bias_stride];
    }
#pragma unroll
    for (int subtile = 0; subtile < SUBTILES; ++subtile) {
      const auto own = reinterpret_cast<const uint32_t&>(loaded[subtile]);
#pragma unroll
      for (int group = 0; group < GROUPS; ++group) {
        const uint32_t pair = __shfl_sync(~0u, own, 4 * group + lane % 4);
        const auto& bias = reinterpret_cast<const Vector<T, 2>&>(pair);
        const float low = number_of(to_accumulator(bias.lane[0]));
        const float high = number_of(to_accumulator(bias.lane[1]));
        float* const four = &accum[4 * (subtile * GROUPS + group)];
        four[0] += low;
        four[1] += high;
        four[2] += low;
        four[3] += high;
      }
    }
  }

  __device__ __forceinline__ void relu() const {
#pragma unroll
    for (float& value : accum) value = activate(Activation::relu, value);
  }

  /// Rounds 2 * PAIRS accumulators from `first` on.
  template <int PAIRS>
  __device__ __forceinline__ void round(int first, uint32_t* packed) const {
#pragma unroll
    for (int i = 0; i < PAIRS; ++i) {
      packed[i] = pack<T>(accum[first + 2 * i], accum[first + 2 * i + 1]);
    }
  }

  /// Applies ACTIVATION to all accumulators and rounds them. ACTIVATION is a template argument so
  /// that the evaluations overlap. Many accumulators are processed in two iterations of a rolled
  /// loop, which moves the second half into the registers of the first one: fully unrolled, gelu of
  /// 128 accumulators is 40 KB of code, more than the instruction cache of an SM holds.
  template <Activation ACTIVATION>
  __device__ __forceinline__ void activate_and_round(uint32_t (&packed)[COUNT / 2]) const {
    constexpr int HALF = COUNT >= 64 ? COUNT / 2 : COUNT;
    const auto y = [](float z) { return activate_approximate(ACTIVATION, z); };
#pragma unroll 1
    for (int done = 0; done < COUNT; done += HALF) {
      uint32_t rounded[HALF / 2];
#pragma unroll
      for (int i = 0; i < HALF / 2; ++i) {
        rounded[i] = pack<T>(y(accum[2 * i]), y(accum[2 * i + 1]));
      }
#pragma unroll
      for (int i = 0; i < COUNT - HALF; ++i) accum[i] = accum[i + HALF];
#pragma unroll
      for (int i = 0; i < HALF / 2; ++i) accum[COUNT - HALF + i] = __uint_as_float(rounded[i]);
    }
#pragma unroll
    for (int i = 0; i < COUNT / 2; ++i) {
      packed[i] = __float_as_uint(accum[i / (HALF / 2) * HALF + i % (HALF / 2)]);
    }
  }
};

}  // namespace smem::gemm::sm90::inline SMEM_BUILD
