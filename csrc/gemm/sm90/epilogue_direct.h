// Stores a warp's rounded results by plain stores, for rows of out that begin at any element.
#pragma once

#include "gemm/sm90/epilogue_tma.h"
#include "gemm/sm90/shifted_rows.h"

namespace smem::gemm::sm90::inline SMEM_BUILD {

/// Called with the subtiles of a tile in order, which all have the same staging area.
template <typename T>
struct DirectWriter {
  const GemmParams<T>& params;
  unsigned char* staging;

  using Rows = ShiftedRows<T>;
  static_assert(Rows::BYTES <= STAGING_BYTES && Rows::ROWS == STAGING_ROWS &&
                    Rows::COLS == STAGING_COLS,
                "a subtile's rows fit a warp's staging area");

  /// Stores the subtile whose packed pairs begin at `first_packed`. `is_first`: of the tile.
  template <int COUNT>
  __device__ __forceinline__ void store(const uint32_t (&packed)[COUNT], int first_packed,
                                        const WarpTileCoord& coord, bool is_first) const {
    const auto& out = params.epilogue.out;
    T* const corner =
        out.data + coord.batch * params.strides.out + coord.row * out.row_stride + coord.col;
    const Rows rows{staging};
    rows.begin(is_first);
    stage(rows, packed, first_packed, corner);
    const auto out_row = [&](int row) {
      return OutRow<T>{corner + row * out.row_stride, coord.row + row < coord.end_row};
    };
    const int cols = coord.end_col - coord.col;
    rows.store(out_row, min(cols, STAGING_COLS), is_first, cols <= STAGING_COLS);
  }

 private:
  /// Packed pair 2 vec + half: row lane / 4 + 8 half, columns 8 vec + 2 (lane % 4).
  template <int COUNT>
  __device__ __forceinline__ void stage(const Rows& rows, const uint32_t (&packed)[COUNT],
                                        int first_packed, const T* corner) const {
    const int64_t stride = params.epilogue.out.row_stride;
    const int lane = threadIdx.x % WARP, row = lane / 4;
    // The row eight further begins at the same place within a vector.
    T* const to = rows.staged(row, corner + row * stride, lane % 4 * 2);
    const auto for_each_pair = [&](const auto& store_pair) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int vec = 0; vec < Rows::VECS; ++vec) {
          store_pair(to + (half * 8 * Rows::PITCH / ELEMENT_BYTES + vec * Rows::VEC),
                     packed[first_packed + 2 * vec + half]);
        }
      }
    };
    if (stride % 2 == 0 && is_aligned<2>(corner)) {
      for_each_pair([](T* at, uint32_t pair) { *reinterpret_cast<uint32_t*>(at) = pair; });
    } else {
      for_each_pair([](T* at, uint32_t pair) {
        reinterpret_cast<uint16_t*>(at)[0] = static_cast<uint16_t>(pair);
        reinterpret_cast<uint16_t*>(at)[1] = static_cast<uint16_t>(pair >> 16);
      });
    }
  }
};

}  // namespace smem::gemm::sm90::inline SMEM_BUILD
