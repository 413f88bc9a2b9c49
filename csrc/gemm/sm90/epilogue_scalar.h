// Stores a warp's accumulators element by element, whatever the strides of out, and reads C; and
// stores them unchanged, as the partials of a split-K slice.
#pragma once

#include "gemm/sm90/epilogue_tma.h"

namespace smem::gemm::sm90::inline SMEM_BUILD {

/// Index of a float in a staged subtile of 16 x 64. A row spans all banks twice; the swizzle by row
/// avoids bank conflicts both for writing the accumulators and for reading along a row.
__device__ __forceinline__ int staged_index(int row, int col) {
  return row * STAGING_COLS + (col ^ (row % 4) * 8);
}

/// Stores a warp's accumulators of a split-K slice to a matrix with rows `pitch` apart. Each store
/// of a warp writes eight rows of 32 bytes, which are whole sectors.
template <int COUNT>
__device__ __forceinline__ void store_partials(const float (&accum)[COUNT],
                                               const WarpTileCoord& coord, float* partials,
                                               int64_t pitch) {
  const int lane = threadIdx.x % WARP;
  const int row = coord.row + lane / 4, first = coord.col + lane % 4 * 2;
  float* const upper = partials + row * pitch + first;
  float* const lower = upper + 8 * pitch;
  const bool has_upper = row < coord.end_row, has_lower = row + 8 < coord.end_row;
#pragma unroll
  for (int i = 0; i < COUNT; i += 4) {
    if (first + 2 * i >= coord.end_col) break;
    if (has_upper) *reinterpret_cast<float2*>(upper + 2 * i) = {accum[i], accum[i + 1]};
    if (has_lower) *reinterpret_cast<float2*>(lower + 2 * i) = {accum[i + 2], accum[i + 3]};
  }
}

template <typename T>
struct ScalarWriter {
  float* staging;
  Epilogue<T> epilogue;

  __device__ __forceinline__ ScalarWriter(const GemmParams<T>& params, unsigned char* staging,
                                          int batch)
      : staging(reinterpret_cast<float*>(staging)),
        epilogue(epilogue_at_batch(params.epilogue, params.strides, batch)) {}

  /// Stages the subtile of 16 x 64 whose accumulators begin at `first`.
  template <int COUNT>
  __device__ __forceinline__ void stage(const float (&accum)[COUNT], int first) const {
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int j = 0; j < STAGING_COLS / 8; ++j) {
      const int col = 8 * j + lane % 4 * 2;
      auto* upper = reinterpret_cast<float2*>(staging + staged_index(lane / 4, col));
      auto* lower = reinterpret_cast<float2*>(staging + staged_index(lane / 4 + 8, col));
      *upper = {accum[first + 4 * j], accum[first + 4 * j + 1]};
      *lower = {accum[first + 4 * j + 2], accum[first + 4 * j + 3]};
    }
  }

  __device__ __forceinline__ void store(const WarpTileCoord& coord) const {
    if (epilogue.out_unrounded || epilogue.pre.data) {
      store_unrounded(coord);
    } else {
      store_rounded(coord);
    }
  }

 private:
  __device__ __forceinline__ static int rows_of(const WarpTileCoord& coord) {
    return min(coord.end_row - coord.row, STAGING_ROWS);
  }
  __device__ __forceinline__ static int cols_of(const WarpTileCoord& coord) {
    return min(coord.end_col - coord.col, STAGING_COLS);
  }

  /// Stores float32 results, or the pre-activation beside out. A lane takes two adjacent elements.
  __device__ __forceinline__ void store_unrounded(const WarpTileCoord& coord) const {
    const int rows = rows_of(coord), cols = cols_of(coord), col = threadIdx.x % WARP * 2;
#pragma unroll 1
    for (int row = 0; row < rows; ++row) {
      const float* const from = staging + staged_index(row, col);
      const Real<float> pair[2] = {from[0], from[1]};
      if (col + 1 < cols) {
        epilogue.store(coord.row + row, coord.col + col, pair);
      } else if (col < cols) {
        epilogue.store(coord.row + row, coord.col + col, pair[0]);
      }
    }
  }

  /// Stores 16-bit results. A lane takes two adjacent elements and writes them as one word if they
  /// are contiguous. In a row that begins between two words, the pairs begin one column earlier,
  /// and lane 0, which has no column before its own, takes the last column instead.
  __device__ __forceinline__ void store_rounded(const WarpTileCoord& coord) const {
    const int lane = threadIdx.x % WARP, rows = rows_of(coord), cols = cols_of(coord);
    const auto& out = epilogue.out;
    const int64_t step = out.col_stride;
#pragma unroll 2
    for (int row = 0; row < rows; ++row) {
      T* const to = out.data + (coord.row + row) * out.row_stride + coord.col * step;
      const bool is_between_words = step == 1 && !is_aligned<2>(to);
      const int left = 2 * lane - is_between_words, first = left < 0 ? STAGING_COLS - 1 : left;
      const int second = left + 1;
      const bool has_first = first < cols, has_second = second < cols;
      const auto value = [&](int col) {
        return from_accumulator<T>(
            epilogue.element(coord.row + row, coord.col + col, staging[staged_index(row, col)]));
      };
      Vector<T, 2> pair;
      if (has_first) pair.lane[0] = value(first);
      if (has_second) pair.lane[1] = value(second);
      if (step == 1 && left >= 0 && has_second) {
        store_global_vector<2>(to + first, pair);
      } else {
        if (has_first) to[first * step] = pair.lane[0];
        if (has_second) to[second * step] = pair.lane[1];
      }
    }
  }
};

}  // namespace smem::gemm::sm90::inline SMEM_BUILD
