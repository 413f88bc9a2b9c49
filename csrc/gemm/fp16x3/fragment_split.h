// Columns of B in float32, which a warp reads from shared memory, and splits into hi and lo in the
// registers from which wgmma takes them. A warp has 16 columns, a lane two of them.
//
// Four lanes share a lane's columns, and the accumulators of a column are theirs, too. So when a
// column's running scale falls, they multiply their own accumulators, and nothing goes through
// shared memory. split_producer.h explains the running scales.
//
// What may be changed: nothing here changes the results, but which columns and k a lane has is
// wgmma's.
#pragma once

#include <array>
#include <bit>

#include "gemm/fp16x3/running_scale.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {

using split::RowScale;

constexpr int LANE_COLS = 2;         ///< columns of a lane
constexpr int K_BLOCK_ELEMENTS = 8;  ///< of each column that a lane has, per k block

/// A lane's elements of some k blocks.
template <int K_BLOCKS>
using LaneElements = Vector<float, K_BLOCKS * K_BLOCK_ELEMENTS>[LANE_COLS];

/// The k of a lane's element, less 2 (lane % 4): of each 16 k, pairs that are 8 apart.
constexpr int fragment_k(int element) {
  return element / 4 * 16 + element / 2 % 2 * 8 + element % 2;
}

/// A wgmma's operand in registers: the lane's part of 16 columns and 16 k.
using Fragment = uint32_t[4];

/// hi and lo of some k blocks.
template <int K_BLOCKS>
struct HiLoFragments {
  static constexpr int ELEMENTS = K_BLOCKS * K_BLOCK_ELEMENTS;
  Fragment hi[ELEMENTS / 4], lo[ELEMENTS / 4];

  /// Sets the words of the lane's column c.
  __device__ __forceinline__ void set(int c, const Vector<half, ELEMENTS>& hi_elements,
                                      const Vector<half, ELEMENTS>& lo_elements) {
    using Words = std::array<uint32_t, ELEMENTS / 2>;
    const auto hi_words = std::bit_cast<Words>(hi_elements);
    const auto lo_words = std::bit_cast<Words>(lo_elements);
#pragma unroll
    for (int i = 0; i < ELEMENTS / 2; ++i) {
      hi[i / 2][c + i % 2 * 2] = hi_words[i];
      lo[i / 2][c + i % 2 * 2] = lo_words[i];
    }
  }
};

/// A lane's columns while they are split. It takes K_BLOCKS k blocks at a time.
template <int K_BLOCKS>
class FragmentSplit {
 public:
  using Elements = LaneElements<K_BLOCKS>;

  /// `src` is the matrix' first element, `cols` are the lane's columns, of which those from b.mn on
  /// do not exist and are zeros, and `first_result` is the number of column 0 among the results.
  __device__ __forceinline__ FragmentSplit(const split::SplitOperand& b, const float* src,
                                           int64_t first_result, const int (&cols)[LANE_COLS])
      : b_(b), src_(src), first_result_(first_result), cols_{cols[0], cols[1]} {}

  /// Includes elements in the final scales, which the columns are to be split by.
  __device__ __forceinline__ void measure(const Elements& elements) {
#pragma unroll
    for (int c = 0; c < LANE_COLS; ++c) {
#pragma unroll
      for (const float element : elements[c].lane) minmax_[c].include(element);
    }
  }
  __device__ __forceinline__ void use_measured_scales() {
    is_measured_ = true;
#pragma unroll
    for (int c = 0; c < LANE_COLS; ++c) {
      const AbsMinMax minmax = minmax_[c].warp_reduce(4);
      scales_[c] = split::row_scale_of(minmax);
      running_[c].finalize(minmax);
    }
  }

  /// Updates the scales by the elements from k on. Returns whether the accumulators of each column
  /// must be multiplied by its factor before they take the products. Called by a whole warp.
  __device__ __forceinline__ bool update(Elements& elements, int k, float (&factors)[LANE_COLS]) {
    MagnitudeRange ranges[LANE_COLS];
    bool is_unusual = is_measured_;
#pragma unroll
    for (int c = 0; c < LANE_COLS; ++c) {
#pragma unroll
      for (int i = 0; i < K_BLOCKS * K_BLOCK_ELEMENTS; i += 2) {
        ranges[c].include(elements[c].lane[i], elements[c].lane[i + 1]);
      }
      is_unusual |=
          ranges[c].amax() > binade_end_[c] || running_[c].may_become_outlier(ranges[c].amin_key);
    }
    is_unusual = __any_sync(~0u, is_unusual);
    if (is_unusual) update_scales(elements, k, ranges, factors);
#pragma unroll
    for (int c = 0; c < LANE_COLS; ++c) {
      if (!running_[c].is_final) {
        running_[c].amin_key = min(running_[c].amin_key, ranges[c].amin_key);
      }
    }
    return is_unusual;
  }

  /// Splits the elements of some of the k blocks, from `first` on.
  template <int COUNT>
  __device__ __forceinline__ void split(const Elements& elements, int first,
                                        HiLoFragments<COUNT>& fragments) const {
    constexpr int SIZE = COUNT * K_BLOCK_ELEMENTS;
#pragma unroll
    for (int c = 0; c < LANE_COLS; ++c) {
      Vector<float, SIZE> part;
#pragma unroll
      for (int i = 0; i < SIZE; ++i) {
        part.lane[i] = elements[c].lane[first * K_BLOCK_ELEMENTS + i];
      }
      Vector<half, SIZE> hi, lo;
      split_represented(part, running_[c].scale_exponent, hi, lo);
      fragments.set(c, hi, lo);
    }
  }

  /// After the last k block: stores the scales to the results, and packed to `packed_scales`.
  /// Returns whether the columns of the warp were split by their final scales.
  __device__ __forceinline__ bool finish(int (&packed_scales)[LANE_COLS]) {
    bool are_valid = true;
#pragma unroll
    for (int c = 0; c < LANE_COLS; ++c) {
      if (!is_measured_) {
        RunningScale& scale = running_[c];
        scale.amin_key = min(scale.amin_key, __shfl_xor_sync(~0u, scale.amin_key, 1));
        scale.amin_key = min(scale.amin_key, __shfl_xor_sync(~0u, scale.amin_key, 2));
        are_valid &= scale.is_valid();
        scales_[c] = {scale.amax == 0 ? 0 : scale.scale_exponent, scale.status};
      }
      packed_scales[c] = scales_[c].pack();
      if (threadIdx.x % 4 == 0 && cols_[c] < b_.mn) {
        split::store_row_scale(b_, first_result_ + cols_[c], scales_[c]);
      }
    }
    __syncwarp();  // the epilogue reads what other lanes have stored
    return __all_sync(~0u, are_valid);
  }

 private:
  /// Updates the scales where that is necessary, makes them final and extracts outliers.
  __device__ __forceinline__ void update_scales(Elements& elements, int k,
                                                const MagnitudeRange (&ranges)[LANE_COLS],
                                                float (&factors)[LANE_COLS]) {
    int previous_exponent[LANE_COLS];
    bool may_have_outlier = is_measured_;
#pragma unroll
    for (int c = 0; c < LANE_COLS; ++c) {
      RunningScale& scale = running_[c];
      previous_exponent[c] = scale.scale_exponent;
      scale.amax = max(scale.amax, ranges[c].amax());
      scale.amax = max(scale.amax, __shfl_xor_sync(~0u, scale.amax, 1));
      scale.amax = max(scale.amax, __shfl_xor_sync(~0u, scale.amax, 2));
      scale.update();
      may_have_outlier |= scale.may_become_outlier(ranges[c].amin_key);
    }
    if (__any_sync(~0u, may_have_outlier)) {
      finalize(k, ranges);
#pragma unroll
      for (int c = 0; c < LANE_COLS; ++c) {
        const RowScale running{running_[c].scale_exponent, running_[c].status};
        prepare(elements[c].lane, k, c, is_measured_ ? scales_[c] : running);
      }
    }
#pragma unroll
    for (int c = 0; c < LANE_COLS; ++c) {
      const RunningScale& scale = running_[c];
      constexpr uint32_t MANTISSA = (1u << split::MANTISSA_BITS) - 1;
      binade_end_[c] = scale.amax == 0 ? 0 : scale.amax | MANTISSA;
      // A normal number, as in split_producer.h.
      factors[c] = split::power_of_two(max(scale.scale_exponent - previous_exponent[c], -126));
    }
  }

  /// By a whole warp: reads the rest of each column that may have an outlier from k on, and makes
  /// its scale final.
  __device__ __forceinline__ void finalize(int k, const MagnitudeRange (&ranges)[LANE_COLS]) {
    constexpr int LOADS = 8;
    unsigned requests[LANE_COLS];
#pragma unroll
    for (int c = 0; c < LANE_COLS; ++c) {
      requests[c] = __ballot_sync(
          ~0u, !running_[c].is_final && running_[c].may_become_outlier(ranges[c].amin_key));
    }
    while (requests[0] | requests[1]) {
      const int lane = __ffs(requests[0] ? requests[0] : requests[1]) - 1;
      const int col = __shfl_sync(~0u, requests[0] ? cols_[0] : cols_[1], lane);
      const AbsMinMax rest =
          minmax_from<LOADS>(src_ + col * b_.mn_stride, b_.k_stride, k, static_cast<int>(b_.k));
#pragma unroll
      for (int c = 0; c < LANE_COLS; ++c) {
        if (cols_[c] == col) running_[c].finalize(rest);
        requests[c] &= ~__ballot_sync(~0u, cols_[c] == col);
      }
    }
  }

  /// Stores and zeroes the outlier, if the column has one, and brings the elements into the range
  /// of split(), where its scale need not be the column's.
  __device__ __forceinline__ void prepare(float (&elements)[K_BLOCKS * K_BLOCK_ELEMENTS], int k,
                                          int c, RowScale scale) const {
    const int64_t result = first_result_ + cols_[c];
    const float limit =
        scale.status == split::ONE_OUTLIER ? outlier_limit(scale.scale_exponent) : 0.0f;
    const bool is_shifted = is_measured_ && scale.status != split::FALLBACK && running_[c].amax > 0;
    const float shift =
        is_shifted ? split::power_of_two(scale.scale_exponent - running_[c].scale_exponent) : 1.0f;
#pragma unroll
    for (int i = 0; i < K_BLOCKS * K_BLOCK_ELEMENTS; ++i) {
      const float element = elements[i];
      const bool is_outlier = fabsf(element) < limit && element != 0;
      if (is_outlier) {
        b_.outlier_k[result] = k + static_cast<int>(threadIdx.x % 4) * 2 + fragment_k(i);
        b_.outlier[result] = element;
      }
      elements[i] = is_outlier ? 0.0f : element * shift;
    }
  }

  /// Elements below are too small for hi and lo (RowScale::is_outlier): 2^MIN_EXPONENT, unscaled.
  __device__ __forceinline__ static float outlier_limit(int scale_exponent) {
    const int exponent = split::MIN_EXPONENT - scale_exponent;
    constexpr int LEAST_NORMAL = 1 - split::EXPONENT_BIAS;
    if (exponent >= LEAST_NORMAL) return split::power_of_two(exponent);
    const int bit = exponent - LEAST_NORMAL + split::MANTISSA_BITS;  // of a subnormal number
    return __uint_as_float(bit < 0 ? 0 : 1u << bit);
  }

  const split::SplitOperand& b_;
  const float* src_;
  int64_t first_result_;
  int cols_[LANE_COLS];
  RunningScale running_[LANE_COLS];
  uint32_t binade_end_[LANE_COLS] = {};  ///< the largest amax with the scale of running_
  AbsMinMax minmax_[LANE_COLS];
  RowScale scales_[LANE_COLS];
  bool is_measured_ = false;
};

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
