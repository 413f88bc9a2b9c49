// Stores a warp's rounded results, by TMA or by plain stores of whole words. The warps work
// independently of each other: each rearranges its 16 rows, 64 columns at a time (a subtile), in
// its own staging area.
#pragma once

#include "device/stmatrix.h"
#include "device/tma.h"
#include "device/warpgroup.h"
#include "gemm/sm90/params.h"

namespace smem::gemm::sm90::inline SMEM_BUILD {

/// Coordinates in out of a warp's results: the first of its 16 rows, the first column, and the ends
/// of the rows and columns that its tile computes.
struct WarpTileCoord {
  int row, col, end_row, end_col, batch;
};

template <typename T>
__device__ __forceinline__ uint32_t pack(float low, float high) {
  const Vector<T, 2> pair{{from_accumulator<T>(low), from_accumulator<T>(high)}};
  return reinterpret_cast<const uint32_t&>(pair);
}

/// Stores subtiles of 16 x 64 elements. The code is short on purpose: with a cold instruction
/// cache, every 128 bytes of instructions are read from DRAM.
template <typename T>
struct SubtileWriter {
  const GemmParams<T>& params;
  unsigned char* staging;
  int buffer = 0;

  /// Lane 16h + r writes the 16-byte vector 2i + h of row r to smem_offset[i] of the buffer. Boxes
  /// of 64 columns have rows of 128 bytes and are swizzled; narrower boxes follow each other.
  struct StmatrixOffsets {
    uint32_t smem_offset[STAGING_COLS / 16];
  };
  __device__ __forceinline__ StmatrixOffsets stmatrix_offsets() const {
    const int lane = threadIdx.x % WARP, row = lane % STAGING_ROWS, log2 = params.log2_box_vecs;
    const uint32_t swizzle = 1 << log2 == STAGING_COLS / 8 ? row % 8 * 16 : 0;
    StmatrixOffsets result;
#pragma unroll
    for (int i = 0; i < STAGING_COLS / 16; ++i) {
      const int vec = 2 * i + lane / STAGING_ROWS, box = vec >> log2, within = vec - (box << log2);
      result.smem_offset[i] = (((box * STAGING_ROWS + row) << log2) + within) * 16 ^ swizzle;
    }
    return result;
  }

  /// Stores the subtile whose packed pairs begin at `first`, to the tensor of `map`. TMA does not
  /// write what is outside of the tensor.
  template <int COUNT>
  __device__ __forceinline__ void store_tma(const uint32_t (&packed)[COUNT], int first,
                                            const StmatrixOffsets& offsets,
                                            const WarpTileCoord& coord, const CUtensorMap& map) {
    const unsigned char* const rows = stage(packed, first, offsets);
    fence_view_async_shared();
    __syncwarp();
    if (threadIdx.x % WARP == 0) {
      const int box_cols = 8 << params.log2_box_vecs;
      const int end = min(coord.end_col - coord.col, STAGING_COLS);
#pragma unroll 1
      for (int col = 0; col < end; col += box_cols) {
        tma_store(map, {coord.col + col, coord.row, coord.batch},
                  rows + col * STAGING_ROWS * static_cast<int>(sizeof(T)));
      }
      tma_store_commit();
    }
  }

  /// Stores the same row by row with plain stores. A lane writes two adjacent elements as one word.
  /// In a row that begins between two words, the pairs begin one column earlier, and lane 0, which
  /// has no column before its own, takes the last column instead. If the row stride is odd, this
  /// applies to every other row; those rows are written in a second pass, so that the columns of a
  /// lane are the same for all rows of a pass.
  template <int COUNT>
  __device__ __forceinline__ void store_direct(const uint32_t (&packed)[COUNT], int first_packed,
                                               const StmatrixOffsets& offsets,
                                               const WarpTileCoord& coord) {
    const auto& out = params.epilogue.out;
    const int rows = min(coord.end_row - coord.row, STAGING_ROWS);
    const int cols = min(coord.end_col - coord.col, STAGING_COLS);
    const int passes = out.row_stride % 2 == 0 ? 1 : 2;
    const uint32_t from = shared_address(stage(packed, first_packed, offsets));
    T* first_row =
        out.data + coord.batch * params.strides.out + coord.row * out.row_stride + coord.col;
    __syncwarp();
    for (int pass = 0; pass < passes; ++pass, first_row += out.row_stride) {
      const int left = static_cast<int>(threadIdx.x % WARP * 2) - !is_aligned<2>(first_row);
      const int first = left & (STAGING_COLS - 1), second = left + 1;
      const bool is_word = left >= 0 && second < cols;
      const bool has_first = !is_word && first < cols, has_second = !is_word && second < cols;
      const auto element = [&](int row, int col) {
        constexpr int PITCH = STAGING_COLS * ELEMENT_BYTES;
        return load_shared_u16(from + row * PITCH + (col * ELEMENT_BYTES ^ row % 8 * 16));
      };
      constexpr int UNROLL = 4;
      T* to = first_row;
#pragma unroll 1
      for (int row = pass; row < rows; row += UNROLL * passes) {
        uint16_t low[UNROLL], high[UNROLL];
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
          low[i] = element(row + i * passes, first);
          high[i] = element(row + i * passes, second);
        }
#pragma unroll
        for (int i = 0; i < UNROLL; ++i, to += passes * out.row_stride) {
          const bool is_valid = row + i * passes < rows;
          if (is_valid && is_word) {
            *reinterpret_cast<uint32_t*>(to + first) = low[i] | uint32_t{high[i]} << 16;
          }
          if (is_valid && has_first) reinterpret_cast<uint16_t*>(to)[first] = low[i];
          if (is_valid && has_second) reinterpret_cast<uint16_t*>(to)[second] = high[i];
        }
      }
    }
  }

 private:
  template <int COUNT>
  __device__ __forceinline__ const unsigned char* stage(const uint32_t (&packed)[COUNT], int first,
                                                        const StmatrixOffsets& offsets) {
    unsigned char* const rows = staging + buffer * STAGING_BUFFER_BYTES;
    buffer ^= 1;
    // The TMA store before the last one read this buffer.
    if (threadIdx.x % WARP == 0) tma_store_wait_read<1>();
    __syncwarp();
#pragma unroll
    for (int i = 0; i < STAGING_COLS / 16; ++i) {
      const uint32_t* tile = packed + first + 4 * i;
      stmatrix_x4(shared_address(rows) + offsets.smem_offset[i], tile[0], tile[1], tile[2],
                  tile[3]);
    }
    return rows;
  }
};

}  // namespace smem::gemm::sm90::inline SMEM_BUILD
