// The epilogue of gemm.cu and gemm_sm80.cu: from a warp's accumulators to out.
//
// A thread has accumulators of two rows, in pairs of columns. The warp exchanges them through
// shared memory and then stores whole rows: 4 elements per lane, for which a lane needs the powers
// of two and the bias of 4 columns only. With the accumulators where the tensor cores leave them,
// an epilogue was four times as many instructions, 9,500 cycles for 128 x 128 elements.
#pragma once

#include "device/warpgroup.h"
#include "gemm/epilogue_params.h"
#include "gemm/fp16x3/linear_combination.h"
#include "gemm/fp16x3/split_metadata.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {

/// Stores a warp's 16 rows and COLS columns. CALLS_ACTIVATIONS: activations beside relu, and `pre`,
/// have their own fast path. gemm_sm80.cu does without: it cost its main loop 30 spills.
template <int COLS, bool CALLS_ACTIVATIONS>
class SplitEpilogue {
  static constexpr int ROWS = 16, QUAD = 4;
  static constexpr int LANES = COLS / QUAD;  ///< that share a row
  static constexpr int ROWS_PER_PASS = WARP / LANES, PASSES = ROWS / ROWS_PER_PASS;
  static_assert(COLS % 32 == 0 && COLS <= 128,
                "place() exchanges groups of columns within 32, and a warp reads at least a row");

 public:
  static constexpr int ACCUMS = COLS / 2;  ///< per thread

  /// Loads what the tile's rows and columns need, ahead of the accumulators. `is_scaled`: whether
  /// the accumulators are multiplied by the powers of two.
  __device__ __forceinline__ SplitEpilogue(const Epilogue<float>& epilogue, const SplitMetadata& a,
                                           const SplitMetadata& b, int first_row, int first_col,
                                           bool is_scaled)
      : epilogue_(epilogue),
        a_(a),
        b_(b),
        first_row_(first_row),
        first_col_(first_col),
        is_scaled_(is_scaled) {
    const auto& out = epilogue.out;
    const int lane = threadIdx.x % WARP;
    is_plain_ = is_bias_relu(epilogue) && out.col_stride == 1;
    const bool has_vectors = rows_are_vectors<QUAD>(out) && out.cols % QUAD == 0;
    calls_activation_ = CALLS_ACTIVATIONS && only_adds_bias(epilogue) && has_vectors;
    has_quads_ = !is_plain_ || has_vectors;
    const int row = first_row + lane % ROWS;
    const bool is_row = row < out.rows;
    row_status_ = is_row ? a.status[row] : 0;
    row_exponent_ = is_row && is_scaled ? a.exponent[row] : 0;
#pragma unroll
    for (int i = 0; i < QUAD; ++i) {
      const int col = col_of(i);
      const bool is_col = col < out.cols;
      col_status_[i] = is_col ? b.status[col] : 0;
      col_exponents_[i] = is_col && is_scaled ? b.exponent[col] : 0;
    }
  }

  /// Called by a warp; `staged` is its memory of 16 x COLS floats. Accumulator i of a thread is in
  /// row lane / 4, or 8 rows below if i & 2, and in column 8 (i / 4) + 2 (lane % 4) + i % 2.
  /// Returns whether a row or a column is FALLBACK.
  __device__ __forceinline__ bool write(const float (&accum)[ACCUMS], float* staged) const {
    unsigned status = row_status_;
#pragma unroll
    for (const unsigned of_col : col_status_) status |= of_col;
    status = __reduce_or_sync(~0u, status);
    stage(accum, staged);
    bool are_small = is_small_exponent(row_exponent_);
#pragma unroll
    for (const int exponent : col_exponents_) are_small = are_small && is_small_exponent(exponent);
    const bool has_outliers = is_scaled_ && (status & ONE_OUTLIER) != 0;
    if (has_outliers || !__all_sync(~0u, are_small) || (!is_plain_ && !calls_activation_)) {
      write_any(staged, has_outliers);
    } else if (!is_plain_) {
      write_activated(staged);
    } else if (has_quads_) {
      write_plain<true>(staged);
    } else {
      write_plain<false>(staged);
    }
    __syncwarp();
    return (status & FALLBACK) != 0;
  }

 private:
  /// The place of an element in `staged`. Groups of 8 columns change places from row to row, so
  /// that neither the 4 rows which half a warp writes at a time have bank conflicts, nor a row that
  /// is read.
  __device__ __forceinline__ static int place(int row, int col) {
    return row * COLS + (col ^ row % 4 * 8);
  }

  /// Element i of a lane is in this column of the tile: of 4 adjacent ones, or LANES columns apart
  /// where rows of out are not vectors.
  __device__ __forceinline__ int tile_col_of(int i) const {
    const int lane = threadIdx.x % LANES;
    return has_quads_ ? lane * QUAD + i : lane + i * LANES;
  }
  __device__ __forceinline__ int col_of(int i) const { return first_col_ + tile_col_of(i); }

  __device__ __forceinline__ static void stage(const float (&accum)[ACCUMS], float* staged) {
    const int row = threadIdx.x % WARP / 4, col = threadIdx.x % 4 * 2;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < ACCUMS; i += 2) {
      store_vector<2>(staged + place(row + (i & 2 ? 8 : 0), i / 4 * 8 + col),
                      Vector<float, 2>{{accum[i], accum[i + 1]}});
    }
    __syncwarp();
  }

  __device__ __forceinline__ static int row_in_pass(int pass) {
    return pass * ROWS_PER_PASS + threadIdx.x % WARP / LANES;
  }

  /// The lane's 4 elements of a row.
  template <bool QUADS>
  __device__ __forceinline__ static Vector<float, QUAD> load(const float* staged, int row) {
    const int lane = threadIdx.x % LANES;
    if constexpr (QUADS) {
      return load_vector<QUAD>(staged + place(row, lane * QUAD));
    } else {
      Vector<float, QUAD> values;
#pragma unroll
      for (int i = 0; i < QUAD; ++i) values.lane[i] = staged[place(row, lane + i * LANES)];
      return values;
    }
  }

  /// Scales by a single product, adds a bias and applies relu.
  template <bool QUADS>
  __device__ __forceinline__ void write_plain(const float* staged) const {
    const auto& out = epilogue_.out;
    const bool has_relu = epilogue_.activation == Activation::relu;
    float bias[QUAD];
    bool is_col[QUAD];
#pragma unroll
    for (int i = 0; i < QUAD; ++i) {
      is_col[i] = col_of(i) < out.cols;
      // -0 is the neutral element of addition.
      bias[i] =
          epilogue_.bias && is_col[i] ? epilogue_.bias[col_of(i) * epilogue_.bias_stride] : -0.0f;
    }
    constexpr int UNROLL = 4, UNROLLED_ROWS = UNROLL * ROWS_PER_PASS;
    static_assert(PASSES % UNROLL == 0 && UNROLLED_ROWS % 4 == 0, "places repeat");
    float* to = out.at(first_row_ + row_in_pass(0), col_of(0));
    const int rows = static_cast<int>(out.rows) - first_row_;
#pragma unroll 1
    for (int first = 0; first < ROWS; first += UNROLLED_ROWS, staged += UNROLLED_ROWS * COLS) {
#pragma unroll
      for (int pass = 0; pass < UNROLL; ++pass, to += ROWS_PER_PASS * out.row_stride) {
        const int row = row_in_pass(pass);
        const int row_exponent = __shfl_sync(~0u, row_exponent_, first + row);
        Vector<float, QUAD> values = load<QUADS>(staged, row);
#pragma unroll
        for (int i = 0; i < QUAD; ++i) {
          float& value = values.lane[i];
          value = rounded_product(value, split::power_of_two(col_exponents_[i] + row_exponent)) +
                  bias[i];
          if (has_relu) value = activate(Activation::relu, value);
        }
        if (first + row >= rows) continue;
        if constexpr (QUADS) {
          if (is_col[0]) store_global_vector<QUAD>(to, values);
        } else {
#pragma unroll
          for (int i = 0; i < QUAD; ++i) {
            if (is_col[i]) to[i * LANES] = values.lane[i];
          }
        }
      }
    }
  }

  /// What a lane's 4 columns need, in registers.
  struct Columns {
    int exponents[QUAD];
    float bias[QUAD];  ///< -0 without one, the neutral element of addition
    int count;         ///< that exist
  };

  /// The same with any activation and `pre`, for rows that are vectors. Not inlined, where it gave
  /// the main loop other registers and 2% more time; `this` would be in local memory then.
  __device__ __noinline__ static void write_activated(const float* staged, float* to, float* pre,
                                                      int64_t row_stride, int rows,
                                                      int row_exponents, Columns columns,
                                                      Activation activation) {
    const int64_t pre_offset = pre - to;
#pragma unroll 1
    for (int pass = 0; pass < PASSES; ++pass, to += ROWS_PER_PASS * row_stride) {
      const int row = row_in_pass(pass);
      const int row_exponent = __shfl_sync(~0u, row_exponents, row);
      Vector<float, QUAD> values = load<true>(staged, row);
#pragma unroll
      for (int i = 0; i < QUAD; ++i) {
        values.lane[i] = rounded_product(values.lane[i],
                                         split::power_of_two(columns.exponents[i] + row_exponent)) +
                         columns.bias[i];
      }
      if (row >= rows || columns.count == 0) continue;
      if (pre) store_global_vector<QUAD>(to + pre_offset, values);
      store_global_vector<QUAD>(to, activate_all<false>(activation, values));
    }
  }
  __device__ __forceinline__ void write_activated(const float* staged) const {
    const auto& out = epilogue_.out;
    const int64_t row = first_row_ + row_in_pass(0), col = col_of(0);
    Columns columns{.count = col < out.cols ? QUAD : 0};
#pragma unroll
    for (int i = 0; i < QUAD; ++i) {
      columns.exponents[i] = col_exponents_[i];
      columns.bias[i] = epilogue_.bias && columns.count
                            ? epilogue_.bias[(col + i) * epilogue_.bias_stride]
                            : -0.0f;
    }
    write_activated(staged, out.at(row, col),
                    epilogue_.pre.data ? epilogue_.pre.at(row, col) : nullptr, out.row_stride,
                    static_cast<int>(out.rows) - first_row_, row_exponent_, columns,
                    epilogue_.activation);
  }

  /// Any epilogue, by a loop: copies of the activations would be much code. Leaves out FALLBACK
  /// rows and columns: the fallback that computes them reads their C, which may be the same memory
  /// as out.
  __device__ __forceinline__ void write_any(float* staged, bool has_outliers) const {
    const auto& out = epilogue_.out;
    bool are_written = has_quads_;
    unsigned written = 0;  // bits
#pragma unroll
    for (int i = 0; i < QUAD; ++i) {
      are_written = are_written && col_status_[i] != FALLBACK;
      if (col_of(i) < out.cols && col_status_[i] != FALLBACK) written |= 1u << i;
    }
#pragma unroll 1
    for (int pass = 0; pass < PASSES; ++pass) {
      const int row_of_tile = row_in_pass(pass), row = first_row_ + row_of_tile;
      const int row_exponent = __shfl_sync(~0u, row_exponent_, row_of_tile);
      const unsigned row_status = __shfl_sync(~0u, row_status_, row_of_tile);
      if (row >= out.rows || row_status == FALLBACK) continue;
      Accumulator<float> values[QUAD];
#pragma unroll
      for (int i = 0; i < QUAD; ++i) {
        float& element = staged[place(row_of_tile, tile_col_of(i))];
        element = scale_by_exponent(element, col_exponents_[i] + row_exponent);
        if (has_outliers && (written >> i & 1)) {
          element = add_outlier_products(a_, row, b_, col_of(i), element);
        }
        values[i] = element;
      }
      if (are_written) {
        epilogue_.store(row, col_of(0), values);
        continue;
      }
#pragma unroll 1
      for (int i = 0; i < QUAD; ++i) {
        if ((written >> i & 1) == 0) continue;
        epilogue_.store(row, col_of(i), staged[place(row_of_tile, tile_col_of(i))]);
      }
    }
  }

  Epilogue<float> epilogue_;
  SplitMetadata a_, b_;
  int first_row_, first_col_;
  bool is_scaled_;
  bool is_plain_;          ///< a bias at most, relu at most, and rows of out that are contiguous
  bool calls_activation_;  ///< a bias, an activation and `pre` at most, and rows that are vectors
  bool has_quads_;         ///< a lane's elements are adjacent
  unsigned row_status_, col_status_[QUAD];  ///< SplitStatus; of row lane % ROWS
  int row_exponent_, col_exponents_[QUAD];
};

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
