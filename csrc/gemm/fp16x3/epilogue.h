// From the sums of two split operands to out.
#pragma once

#include "device/warpgroup.h"
#include "gemm/fp16x3/split_metadata.h"
#include "gemm/fp16x3/linear_combination.h"
#include "gemm/sm90/epilogue_params.h"

namespace smem::gemm::fp16x3 {
inline namespace SMEM_BUILD {

/// All marks of a warp's 16 rows of a tile and of the tile's COLS columns.
template <int COLS>
__device__ __forceinline__ unsigned marks_of(const Lines& a, int row, int rows, const Lines& b,
                                             int col, int cols) {
  const int lane = threadIdx.x % WARP;
  unsigned marks = lane < 16 && row + lane < rows ? a.mark[row + lane] : 0;
#pragma unroll
  for (int i = 0; i < COLS; i += WARP) {
    if (col + i + lane < cols) marks |= b.mark[col + i + lane];
  }
  return __reduce_or_sync(~0u, marks);
}

/// Of a warp's 16 rows of a tile of COLS columns; the block's THREADS do so together.
template <int COLS, int THREADS>
struct Writer {
  static constexpr int SUMS = COLS / 2;  ///< a thread's

  Epilogue<float> epilogue;
  Lines a, b;
  float* own;  ///< room in shared memory for a thread's sums, THREADS apart

  /// Sum i of a thread is row lane / 4, or the one eight below, and column 8 (i / 4) + 2 (lane %
  /// 4), or the next.
  __device__ __forceinline__ void write(float (&sums)[SUMS], int first_row, int first_col,
                                        bool is_mended) const {
    const int lane = threadIdx.x % WARP, row = first_row + lane / 4, col = first_col + lane % 4 * 2;
    const int rows = static_cast<int>(epilogue.out.rows);
    const int cols = static_cast<int>(epilogue.out.cols);
    const int upper = a.exponent[min(row, rows - 1)], lower = a.exponent[min(row + 8, rows - 1)];
#pragma unroll
    for (int i = 0; i < SUMS; ++i) {
      const int exponent = b.exponent[min(col + i / 4 * 8 + i % 2, cols - 1)];
      sums[i] = scaled(sums[i], exponent + (i & 2 ? lower : upper));
    }
    if (is_mended) mend(sums, row, col);
    if (is_plain(epilogue)) {
#pragma unroll
      for (int i = 0; i < SUMS; i += 2) {
        store_plain(row + (i & 2 ? 8 : 0), col + i / 4 * 8, sums[i], sums[i + 1]);
      }
      return;
    }
    // Through shared memory into a loop, because 32 copies of the activations would be much code.
#pragma unroll
    for (int i = 0; i < SUMS; ++i) own[i * THREADS] = sums[i];
#pragma unroll 1
    for (int i = 0; i < SUMS; i += 2) {
      const float pair[2] = {own[i * THREADS], own[(i + 1) * THREADS]};
      store(row + (i & 2 ? 8 : 0), col + i / 4 * 8, pair);
    }
  }

 private:
  /// All but EXACT lines: who computes these will read their C, which may be out.
  __device__ __forceinline__ void store(int row, int col, const float (&pair)[2]) const {
    if (row >= epilogue.out.rows || col >= epilogue.out.cols || a.mark[row] == EXACT) return;
    const bool has_second = col + 1 < epilogue.out.cols;
    const bool stores_first = b.mark[col] != EXACT;
    const bool stores_second = has_second && b.mark[col + 1] != EXACT;
    if (stores_first && stores_second) {
      epilogue.store(row, col, pair);
    } else if (stores_first) {
      epilogue.store(row, col, pair[0]);
    } else if (stores_second) {
      epilogue.store(row, col + 1, pair[1]);
    }
  }

  /// Adds the products of what halves leave of MENDED lines: of rows with B, then of columns with
  /// A. Through shared memory, which a loop can index; it is seldom that there are any.
  __device__ __forceinline__ void mend(float (&sums)[SUMS], int row, int col) const {
    const int rows = static_cast<int>(epilogue.out.rows);
    const int cols = static_cast<int>(epilogue.out.cols);
#pragma unroll
    for (int i = 0; i < SUMS; ++i) own[i * THREADS] = sums[i];
#pragma unroll 4
    for (int i = 0; i < SUMS; ++i) {
      const int r = row + (i & 2 ? 8 : 0), c = col + i / 4 * 8 + i % 2;
      if (r >= rows || c >= cols) continue;
      own[i * THREADS] = mended(a, r, b, c, own[i * THREADS]);
    }
#pragma unroll
    for (int i = 0; i < SUMS; ++i) sums[i] = own[i * THREADS];
  }

  __device__ __forceinline__ void store_plain(int row, int col, float first, float second) const {
    const auto& out = epilogue.out;
    if (row >= out.rows || col >= out.cols) return;
    const bool both = col + 1 < out.cols;
    if (epilogue.bias) {
      first += epilogue.bias[col * epilogue.bias_stride];
      if (both) second += epilogue.bias[(col + 1) * epilogue.bias_stride];
    }
    if (epilogue.activation == Activation::relu) {
      first = activate(Activation::relu, first);
      second = activate(Activation::relu, second);
    }
    float* const to = &out(row, col);
    if (both && out.col_stride == 1 && is_aligned<2>(to)) {
      *reinterpret_cast<float2*>(to) = {first, second};
    } else {
      *to = first;
      if (both) to[out.col_stride] = second;
    }
  }
};

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::fp16x3
