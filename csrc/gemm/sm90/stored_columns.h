// Which columns a tile stores where rows of out begin within sectors of 32 bytes.
//
// L2 must read a sector from DRAM of which a store has only a part: tiles of 256 columns that end
// within sectors write 16,384 x 11,001 elements of 16 bits in 254 us, whole sectors in 107 (H200;
// DRAM's floor is 86). So neighbouring tiles compute OVERLAP_COLS columns both, and each stores the
// sectors that begin in its own columns:
//
//   a row of out   | sector | sector | sector | sector | sector | sector |
//   tile 0           xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx|
//   tile 1                                             |xxxxxxxxxxxxxxxxxxxxxx
//   their columns    |<--------- tile_n --------->|<--------- tile_n ---
#pragma once

#include <algorithm>
#include <cstdint>

#include "device/launch.h"

namespace smem::gemm::sm90 {

/// 16-bit elements need as many, floats half of them.
constexpr int SECTOR_BYTES = 32, OVERLAP_COLS = 16;

/// How many tiles N columns need. The last one of those that overlap stores all that it computes.
constexpr int64_t tile_columns(int64_t N, int64_t tile_n, bool overlaps) {
  return ceil_div(overlaps ? std::max<int64_t>(N - OVERLAP_COLS + 1, 1) : N, tile_n);
}

inline namespace SMEM_BUILD {

/// A place in a row of the tile is counted from the sector in which its first column is.
struct StoredColumns {
  int cols;           ///< of the tile alone, up to the next tile's first one
  bool shares_first;  ///< the tile before stores the sector in which the first column is, if that
                      ///< begins before it
  bool shares_last;   ///< this tile stores the whole sector in which the last column is

  /// Of a tile that begins at `col`. `end`: the columns of out.
  __device__ __forceinline__ StoredColumns(int col, int tile_n, int end, bool overlaps)
      : shares_first(overlaps && col > 0),
        shares_last(overlaps && end - col >= tile_n + OVERLAP_COLS) {
    cols = shares_last || !overlaps ? min(tile_n, end - col) : end - col;
  }

  /// The columns that hold what is stored, from the tile's first one on.
  __device__ __forceinline__ int needed() const { return cols + (shares_last ? OVERLAP_COLS : 0); }

  /// The first place of a row that is stored, and the end. `shift`: the place of the first column.
  template <int SECTOR>
  __device__ __forceinline__ int begin(int shift) const {
    return shares_first ? round_up_to<SECTOR>(shift) : shift;
  }
  template <int SECTOR>
  __device__ __forceinline__ int end(int shift) const {
    return shares_last ? round_up_to<SECTOR>(shift + cols) : shift + cols;
  }

 private:
  template <int SECTOR>
  __device__ __forceinline__ static int round_up_to(int place) {
    return (place + SECTOR - 1) / SECTOR * SECTOR;
  }
};

}  // namespace SMEM_BUILD

}  // namespace smem::gemm::sm90
