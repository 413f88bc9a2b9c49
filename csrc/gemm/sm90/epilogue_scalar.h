// From the accumulators of a warpgroup to out element by element, whatever out's strides, with C
// read on the way; and to the sums of chunks of K.
#pragma once

#include "gemm/sm90/epilogue_tma.h"

namespace smem::gemm::sm90 {
inline namespace SMEM_BUILD {

/// The place of a float among 16 x 64: rows a multiple of 32 banks long, turned so that neither
/// writing the accumulators nor reading along a row runs into conflicts.
__device__ __forceinline__ int staged(int row, int col) {
  return row * STAGING_COLS + (col ^ (row % 4) * 8);
}

/// A warp's sums, of a chunk of K, to a matrix of M rows, `pitch` apart. Eight rows of 32 bytes at
/// a time, whole sectors.
template <int COUNT>
__device__ __forceinline__ void write_partials(const float (&sums)[COUNT], const Corner& corner,
                                               float* partials, int64_t pitch) {
  const int lane = threadIdx.x % WARP;
  const int row = corner.row + lane / 4, first = corner.col + lane % 4 * 2;
  float* const upper = partials + row * pitch + first;
  float* const lower = upper + 8 * pitch;
  const bool has_upper = row < corner.end_row, has_lower = row + 8 < corner.end_row;
#pragma unroll
  for (int i = 0; i < COUNT; i += 4) {
    if (first + 2 * i >= corner.end_col) break;
    if (has_upper) *reinterpret_cast<float2*>(upper + 2 * i) = {sums[i], sums[i + 1]};
    if (has_lower) *reinterpret_cast<float2*>(lower + 2 * i) = {sums[i + 2], sums[i + 3]};
  }
}

/// Element by element, whatever out's strides.
template <typename T>
struct ElementWriter {
  float* staging;
  Epilogue<T> epilogue;

  __device__ __forceinline__ ElementWriter(const Arguments<T>& args, unsigned char* staging,
                                           int member)
      : staging(reinterpret_cast<float*>(staging)),
        epilogue(epilogue_of_member(args.epilogue, args.strides, member)) {}

  /// The 16 x 64 sums from `first` on.
  template <int COUNT>
  __device__ __forceinline__ void stage(const float (&sums)[COUNT], int first) const {
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int j = 0; j < STAGING_COLS / 8; ++j) {
      const int col = 8 * j + lane % 4 * 2;
      auto* upper = reinterpret_cast<float2*>(staging + staged(lane / 4, col));
      auto* lower = reinterpret_cast<float2*>(staging + staged(lane / 4 + 8, col));
      *upper = {sums[first + 4 * j], sums[first + 4 * j + 1]};
      *lower = {sums[first + 4 * j + 2], sums[first + 4 * j + 3]};
    }
  }

  __device__ __forceinline__ void write(const Corner& corner) const {
    if (epilogue.out_unrounded || epilogue.pre.data) {
      write_any(corner);
    } else {
      write_rows(corner);
    }
  }

 private:
  __device__ __forceinline__ static int rows_of(const Corner& corner) {
    return min(corner.end_row - corner.row, STAGING_ROWS);
  }
  __device__ __forceinline__ static int cols_of(const Corner& corner) {
    return min(corner.end_col - corner.col, STAGING_COLS);
  }

  /// Unrounded sums, and what goes into the activation beside a C: a lane takes two neighbours.
  __device__ __forceinline__ void write_any(const Corner& corner) const {
    const int rows = rows_of(corner), cols = cols_of(corner), col = threadIdx.x % WARP * 2;
#pragma unroll 1
    for (int row = 0; row < rows; ++row) {
      const float* const from = staging + staged(row, col);
      const float pair[2] = {from[0], from[1]};
      if (col + 1 < cols) {
        epilogue.store(corner.row + row, corner.col + col, pair);
      } else if (col < cols) {
        epilogue.store(corner.row + row, corner.col + col, pair[0]);
      }
    }
  }

  /// A lane writes two neighbours, as one word where they are contiguous. In a row that begins
  /// between two words, pairs begin one column earlier, and the first lane, which has no column
  /// before its own, takes the last.
  __device__ __forceinline__ void write_rows(const Corner& corner) const {
    const int lane = threadIdx.x % WARP, rows = rows_of(corner), cols = cols_of(corner);
    const auto& out = epilogue.out;
    const int64_t step = out.col_stride;
#pragma unroll 2
    for (int row = 0; row < rows; ++row) {
      T* const to = out.data + (corner.row + row) * out.row_stride + corner.col * step;
      const bool between = step == 1 && !is_aligned<2>(to);
      const int left = 2 * lane - between, first = left < 0 ? STAGING_COLS - 1 : left;
      const int second = left + 1;
      const bool has_first = first < cols, has_second = second < cols;
      const auto value = [&](int col) {
        return from_accumulator<T>(
            epilogue.element(corner.row + row, corner.col + col, staging[staged(row, col)]));
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

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::sm90
