// Stores a warp's rounded results by TMA. The warps work independently of each other: each
// rearranges its 16 rows, 64 columns at a time (a subtile), in its own staging area.
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
