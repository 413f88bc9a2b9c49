// 16 rows of an operand with a short K, which a warp loads, splits and keeps in registers as
// fragments of mma.m16n8k16. As in split.h, a row is a row of A or a column of B.
//
// Lane 4 g + t has rows 2 g and 2 g + 1, and of each 16 of K, a chunk, the elements 4 t to 4 t + 3.
// mma.sync would have k 2 t, 2 t + 1, 2 t + 8 and 2 t + 9 there. Both operands have the same
// elements at the same places, and Hopper's tensor cores add the 16 products at once, so the bits
// are those of the usual order, and a lane loads 16 bytes along K.
#pragma once

#include <array>
#include <bit>

#include "gemm/fp16x3/running_scale.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {

using split::RowScale;

constexpr int CHUNK_K = 16, SPLIT_ROWS = 16, LANE_ROWS = 2, LANE_K = 4;
constexpr int LANES_K = CHUNK_K / LANE_K;  ///< lanes that share a row

/// How a lane loads its elements.
enum class RowLoad {
  ALONG_K,   ///< 16 bytes of a row
  ALONG_MN,  ///< 8 bytes of both rows
  ELEMENTS,  ///< any strides
};

/// The largest and the smallest magnitude of a row, as in split::AbsMinMax, but not the second
/// smallest, which takes more instructions than both and is hardly ever needed.
struct Extremes {
  uint32_t amax = 0, amin_minus_one = UINT32_MAX;

  __device__ __forceinline__ void include(float element) {
    const uint32_t magnitude = __float_as_uint(element) & ~(1u << 31);
    amax = max(amax, magnitude);
    amin_minus_one = min(amin_minus_one, magnitude - 1);
  }
  /// Over `lanes` neighbouring lanes.
  __device__ __forceinline__ void warp_reduce(int lanes) {
    for (int step = 1; step < lanes; step *= 2) {
      amax = max(amax, __shfl_xor_sync(~0u, amax, step));
      amin_minus_one = min(amin_minus_one, __shfl_xor_sync(~0u, amin_minus_one, step));
    }
  }
  /// A row with several outliers appears as ONE_OUTLIER.
  __device__ __forceinline__ RowScale scale() const {
    return split::row_scale_of({amax, amin_minus_one, UINT32_MAX});
  }
};

/// A lane's elements of 16 rows.
template <int CHUNKS>
struct RowElements {
  Vector<float, LANE_K> rows[LANE_ROWS][CHUNKS];

  /// Loads the rows from `row` on of the matrix at `src`, which has x's shape and strides.
  template <RowLoad LOAD>
  __device__ __forceinline__ void load(const split::SplitOperand& x, const float* src,
                                       int64_t row) {
    const int lane = threadIdx.x % 32, lane_k = lane % LANES_K * LANE_K;
    const int64_t k_stride = LOAD == RowLoad::ALONG_K ? 1 : x.k_stride;
    const int64_t mn_stride = LOAD == RowLoad::ALONG_MN ? 1 : x.mn_stride;
    const auto length = static_cast<int>(x.k);
    row += lane / LANES_K * LANE_ROWS;
    src += row * mn_stride + lane_k * k_stride;
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; ++chunk, src += CHUNK_K * k_stride) {
      const int k = chunk * CHUNK_K + lane_k;
      if constexpr (LOAD == RowLoad::ALONG_K) {
#pragma unroll
        for (int i = 0; i < LANE_ROWS; ++i) {
          rows[i][chunk] = {};
          if (row + i < x.mn && k < length) {
            rows[i][chunk] = load_vector<LANE_K>(src + i * mn_stride);
          }
        }
      } else {
        constexpr int WIDTH = LOAD == RowLoad::ALONG_MN ? LANE_ROWS : 1;
#pragma unroll
        for (int e = 0; e < LANE_K; ++e) {
#pragma unroll
          for (int i = 0; i < LANE_ROWS; i += WIDTH) {
            Vector<float, WIDTH> loaded{};
            if (row + i < x.mn && k + e < length) {
              loaded = load_vector<WIDTH>(src + i * mn_stride + e * k_stride);
            }
#pragma unroll
            for (int j = 0; j < WIDTH; ++j) rows[i + j][chunk].lane[e] = loaded.lane[j];
          }
        }
      }
    }
  }
};

/// hi and lo of 16 rows of CHUNKS * 16 elements: a lane's part.
template <int CHUNKS>
class RegisterSplit {
 public:
  /// Splits the rows that `elements` has loaded. The rows' metadata go to x's results from
  /// `result_row` on, which are in shared memory.
  __device__ __forceinline__ void split(RowElements<CHUNKS>& elements, const split::SplitOperand& x,
                                        const float* src, int64_t row, int result_row) {
    const int lane = threadIdx.x % 32, t = lane % LANES_K;
    const int offset = lane / LANES_K * LANE_ROWS;
    row += offset;
    result_row += offset;
    RowScale scales[LANE_ROWS];
    find_scales(elements, scales);
    are_representable_ = __all_sync(
        ~0u, scales[0].status == split::REPRESENTABLE && scales[1].status == split::REPRESENTABLE);
    if (!are_representable_) find_outliers(x, src, row, t, result_row, scales);
#pragma unroll
    for (int i = 0; i < LANE_ROWS; ++i) {
      if (t == 0) split::store_row_scale(x, result_row + i, scales[i]);
      split_row(elements.rows[i], scales[i], i);
    }
  }

  /// Whether hi and lo represent all 16 rows.
  __device__ __forceinline__ bool are_representable() const { return are_representable_; }

  /// The registers of a chunk, as mma.sync's first operand: its rows g are 2 g, and g + 8 2 g + 1.
  using Fragment = unsigned[4];
  __device__ __forceinline__ const Fragment& hi(int chunk) const { return hi_[chunk]; }
  __device__ __forceinline__ const Fragment& lo(int chunk) const { return lo_[chunk]; }

 private:
  /// A row with several outliers appears as ONE_OUTLIER.
  __device__ __forceinline__ static void find_scales(const RowElements<CHUNKS>& elements,
                                                     RowScale (&scales)[LANE_ROWS]) {
#pragma unroll
    for (int i = 0; i < LANE_ROWS; ++i) {
      Extremes row;
#pragma unroll
      for (const auto& vec : elements.rows[i]) {
#pragma unroll
        for (const float element : vec.lane) row.include(element);
      }
      row.warp_reduce(LANES_K);
      scales[i] = row.scale();
    }
  }

  /// By a whole warp: tells rows with one outlier from rows with several, and stores the outliers.
  /// Hardly any row needs it, so it reads the elements again, in a loop.
  __device__ __forceinline__ static void find_outliers(const split::SplitOperand& x,
                                                       const float* src, int64_t row, int t,
                                                       int result_row,
                                                       RowScale (&scales)[LANE_ROWS]) {
#pragma unroll
    for (int i = 0; i < LANE_ROWS; ++i) {
      const float* const elements = src + (row + i) * x.mn_stride;
      const bool has_outlier = scales[i].status == split::ONE_OUTLIER;
      split::AbsMinMax minmax;
#pragma unroll 1
      for (int k = t; has_outlier && k < x.k; k += LANES_K) {
        minmax.include(elements[k * x.k_stride]);
      }
      minmax = minmax.warp_reduce(LANES_K);
      if (!has_outlier) continue;
      scales[i] = split::row_scale_of(minmax);
#pragma unroll 1
      for (int k = t; scales[i].status == split::ONE_OUTLIER && k < x.k; k += LANES_K) {
        split::store_if_outlier(x, result_row + i, k, elements[k * x.k_stride], scales[i]);
      }
    }
  }

  /// Splits the lane's row i.
  __device__ __forceinline__ void split_row(Vector<float, LANE_K> (&elements)[CHUNKS],
                                            RowScale scale, int i) {
    int scale_exponent = scale.scale_exponent;
    if (scale.status != split::REPRESENTABLE || scale_exponent > RunningScale::MAX_SCALE_EXPONENT) {
#pragma unroll
      for (auto& vec : elements) {
        scale_exponent = scale.scale_exponent;
        split::prescale(vec, scale_exponent, scale.status);
      }
    }
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; ++chunk) {
      Vector<half, LANE_K> hi, lo;
      split_represented(elements[chunk], scale_exponent, hi, lo);
      const auto hi_words = std::bit_cast<std::array<unsigned, 2>>(hi);
      const auto lo_words = std::bit_cast<std::array<unsigned, 2>>(lo);
#pragma unroll
      for (int word = 0; word < 2; ++word) {
        hi_[chunk][i + 2 * word] = hi_words[word];
        lo_[chunk][i + 2 * word] = lo_words[word];
      }
    }
  }

  Fragment hi_[CHUNKS], lo_[CHUNKS];
  bool are_representable_;
};

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
