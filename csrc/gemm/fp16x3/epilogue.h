// The epilogue of gemm.cu and gemm_sm80.cu: from a warp's accumulators to out.
#pragma once

#include "device/warpgroup.h"
#include "gemm/epilogue_params.h"
#include "gemm/fp16x3/linear_combination.h"
#include "gemm/fp16x3/split_metadata.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {

/// The SplitStatus of a warp's 16 rows of a tile and of the tile's TILE_N columns, combined by OR.
template <int TILE_N>
__device__ __forceinline__ unsigned combined_status(const SplitMetadata& a, int row, int rows,
                                                    const SplitMetadata& b, int col, int cols) {
  const int lane = threadIdx.x % WARP;
  unsigned status = lane < 16 && row + lane < rows ? a.status[row + lane] : 0;
#pragma unroll
  for (int i = 0; i < TILE_N; i += WARP) {
    if (col + i + lane < cols) status |= b.status[col + i + lane];
  }
  return __reduce_or_sync(~0u, status);
}

/// Writes a warp's 16 rows of a tile of TILE_N columns. THREADS is the number of threads of the
/// block that do so together.
template <int TILE_N, int THREADS>
struct SplitEpilogue {
  static constexpr int ACCUMS = TILE_N / 2;  ///< per thread

  Epilogue<float> epilogue;
  SplitMetadata a, b;
  float* scratch;  ///< the thread's ACCUMS floats in shared memory, THREADS apart

  /// Accumulator i of a thread is in row lane / 4, or 8 rows below, and in column 8 (i / 4) + 2
  /// (lane % 4), or the next one.
  __device__ __forceinline__ void write(float (&accum)[ACCUMS], int first_row, int first_col,
                                        bool has_outliers) const {
    const int lane = threadIdx.x % WARP, row = first_row + lane / 4, col = first_col + lane % 4 * 2;
    const int rows = static_cast<int>(epilogue.out.rows);
    const int cols = static_cast<int>(epilogue.out.cols);
    const int upper = a.exponent[min(row, rows - 1)], lower = a.exponent[min(row + 8, rows - 1)];
#pragma unroll
    for (int i = 0; i < ACCUMS; ++i) {
      const int exponent = b.exponent[min(col + i / 4 * 8 + i % 2, cols - 1)];
      accum[i] = scale_by_exponent(accum[i], exponent + (i & 2 ? lower : upper));
    }
    if (has_outliers) add_outliers(accum, row, col);
    if (is_bias_relu(epilogue)) {
#pragma unroll
      for (int i = 0; i < ACCUMS; i += 2) {
        store_bias_relu(row + (i & 2 ? 8 : 0), col + i / 4 * 8, accum[i], accum[i + 1]);
      }
      return;
    }
    // Through shared memory into a loop, because 32 copies of the activations would be much code.
#pragma unroll
    for (int i = 0; i < ACCUMS; ++i) scratch[i * THREADS] = accum[i];
#pragma unroll 1
    for (int i = 0; i < ACCUMS; i += 2) {
      const Accumulator<float> pair[2] = {scratch[i * THREADS], scratch[(i + 1) * THREADS]};
      store(row + (i & 2 ? 8 : 0), col + i / 4 * 8, pair);
    }
  }

 private:
  /// Leaves out FALLBACK rows and columns: the fallback that computes them reads their C, which may
  /// be the same memory as out.
  __device__ __forceinline__ void store(int row, int col,
                                        const Accumulator<float> (&pair)[2]) const {
    if (row >= epilogue.out.rows || col >= epilogue.out.cols || a.status[row] == FALLBACK) return;
    const bool has_second = col + 1 < epilogue.out.cols;
    const bool stores_first = b.status[col] != FALLBACK;
    const bool stores_second = has_second && b.status[col + 1] != FALLBACK;
    if (stores_first && stores_second) {
      epilogue.store(row, col, pair);
    } else if (stores_first) {
      epilogue.store(row, col, pair[0]);
    } else if (stores_second) {
      epilogue.store(row, col + 1, pair[1]);
    }
  }

  /// Adds the products of outliers. The accumulators go through shared memory because registers
  /// cannot be indexed by a loop; outliers are rare.
  __device__ __forceinline__ void add_outliers(float (&accum)[ACCUMS], int row, int col) const {
    const int rows = static_cast<int>(epilogue.out.rows);
    const int cols = static_cast<int>(epilogue.out.cols);
#pragma unroll
    for (int i = 0; i < ACCUMS; ++i) scratch[i * THREADS] = accum[i];
#pragma unroll 4
    for (int i = 0; i < ACCUMS; ++i) {
      const int r = row + (i & 2 ? 8 : 0), c = col + i / 4 * 8 + i % 2;
      if (r >= rows || c >= cols) continue;
      scratch[i * THREADS] = add_outlier_products(a, r, b, c, scratch[i * THREADS]);
    }
#pragma unroll
    for (int i = 0; i < ACCUMS; ++i) accum[i] = scratch[i * THREADS];
  }

  __device__ __forceinline__ void store_bias_relu(int row, int col, float first,
                                                  float second) const {
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
    float* const dst = &out(row, col);
    if (both && out.col_stride == 1 && is_aligned<2>(dst)) {
      *reinterpret_cast<float2*>(dst) = {first, second};
    } else {
      *dst = first;
      if (both) dst[out.col_stride] = second;
    }
  }
};

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
