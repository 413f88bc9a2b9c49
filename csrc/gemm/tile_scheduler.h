// Which work tiles a cluster computes, and in what order.
#pragma once

#include <cstdint>

#include "device/fast_divmod.h"

namespace smem::gemm {

/// A static persistent scheduler: of n clusters (or blocks, without clusters), cluster i computes
/// the work tiles i, i + n, i + 2n ... Work tiles are numbered through the tiles of a matrix, then
/// the split-K slices, then the batch. Within a matrix the order is swizzled: it goes through bands
/// of `swizzle_size` rows of tiles, and column by column within a band, so that the tiles computed
/// at one time share what they read from L2. All sizes are counted in cluster tiles: cluster_m
/// tiles, one below the other.
struct TileScheduler {
  uint32_t rows, cols, split_k_slices, swizzle_size;
  uint32_t work_tiles;
  uint32_t k_tiles, k_tiles_per_slice;
  FastDivmod by_tiles, by_band_tiles, by_slices;
  FastDivmod by_band_rows, by_last_band_rows;
  uint32_t* counter = nullptr;  ///< of a dynamic scheduler (dynamic_scheduler.h)

  TileScheduler() = default;
  TileScheduler(uint32_t rows, uint32_t cols, uint32_t split_k_slices, uint32_t batch_count,
                uint32_t swizzle_size, uint32_t k_tiles, uint32_t k_tiles_per_slice)
      : rows(rows),
        cols(cols),
        split_k_slices(split_k_slices),
        swizzle_size(swizzle_size),
        work_tiles(rows * cols * split_k_slices * batch_count),
        k_tiles(k_tiles),
        k_tiles_per_slice(k_tiles_per_slice),
        by_tiles(rows * cols),
        by_band_tiles(swizzle_size * cols),
        by_slices(split_k_slices),
        by_band_rows(swizzle_size),
        by_last_band_rows((rows - 1) % swizzle_size + 1) {}
};

/// The slots of a dynamic scheduler beside so many stages, and the bytes of one
/// (dynamic_scheduler.h).
constexpr int work_tile_slots(int stages) { return stages + 1; }
constexpr int WORK_TILE_SLOT_BYTES = 16;

/// Cluster tile (row, col) of matrix `batch`, over k_tiles k-tiles from first_k_tile on.
struct WorkTileInfo {
  int row, col, first_k_tile, k_tiles, k_slice, batch;
};

inline namespace SMEM_BUILD {

__device__ __forceinline__ WorkTileInfo work_tile_at(const TileScheduler& s, uint32_t index) {
  const uint32_t matrix = quotient(index, s.by_tiles);
  const uint32_t tile = index - matrix * s.by_tiles.by;
  const uint32_t band = quotient(tile, s.by_band_tiles);
  const uint32_t within = tile - band * s.by_band_tiles.by, first_row = band * s.swizzle_size;
  const FastDivmod& band_rows =
      s.rows - first_row < s.swizzle_size ? s.by_last_band_rows : s.by_band_rows;
  const uint32_t col = quotient(within, band_rows), row = within - col * band_rows.by;
  const uint32_t batch = quotient(matrix, s.by_slices), k_slice = matrix - batch * s.split_k_slices;
  const uint32_t first = k_slice * s.k_tiles_per_slice, left = s.k_tiles - first;
  return {static_cast<int>(first_row + row),
          static_cast<int>(col),
          static_cast<int>(first),
          static_cast<int>(left < s.k_tiles_per_slice ? left : s.k_tiles_per_slice),
          static_cast<int>(k_slice),
          static_cast<int>(batch)};
}

}  // namespace SMEM_BUILD
}  // namespace smem::gemm
