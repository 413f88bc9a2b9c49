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

  /// Stores a subtile of the tile at `coord`, whose packed pairs begin at `first_packed`.
  template <int COUNT>
  __device__ __forceinline__ void store(const uint32_t (&packed)[COUNT], int first_packed,
                                        const WarpTileCoord& coord, int subtile) const {
    const StoredColumns columns = columns_of(coord);
    if (coord.row >= coord.end_row || !Rows::is_used(subtile, columns)) return;
    const Rows rows{staging};
    rows.begin(subtile);
    stage(rows, packed, first_packed, corner_of(coord));
    rows.store(rows_of(coord), columns, subtile);
  }

 private:
  __device__ __forceinline__ StoredColumns columns_of(const WarpTileCoord& coord) const {
    return {coord.col, params.tile_n, static_cast<int>(params.epilogue.out.cols), params.overlaps};
  }

  /// The first element of the tile in the warp's first row.
  __device__ __forceinline__ T* corner_of(const WarpTileCoord& coord) const {
    const auto& out = params.epilogue.out;
    return out.data + coord.batch * params.strides.out + coord.row * out.row_stride + coord.col;
  }

  __device__ __forceinline__ auto rows_of(const WarpTileCoord& coord) const {
    T* const corner = corner_of(coord);
    const int64_t stride = params.epilogue.out.row_stride;
    const int valid_rows = coord.end_row - coord.row;
    return [=](int row) { return OutRow<T>{corner + row * stride, row < valid_rows}; };
  }

  /// Packed pair 2 vec + half: row lane / 4 + 8 half, columns 8 vec + 2 (lane % 4).
  template <int COUNT>
  __device__ __forceinline__ void stage(const Rows& rows, const uint32_t (&packed)[COUNT],
                                        int first_packed, const T* corner) const {
    const int64_t stride = params.epilogue.out.row_stride;
    const int lane = threadIdx.x % WARP, row = lane / 4;
    const auto for_each_pair = [&](const auto& store_pair) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int half_row = row + 8 * half;
        T* const to = rows.staged(half_row, corner + half_row * stride, lane % 4 * 2);
#pragma unroll
        for (int vec = 0; vec < Rows::VECS; ++vec) {
          store_pair(to + vec * Rows::VEC, packed[first_packed + 2 * vec + half]);
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
