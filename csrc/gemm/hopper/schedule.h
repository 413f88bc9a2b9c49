// Which tile a cluster computes when.
#pragma once

#include "device/platform.h"
#include "gemm/hopper/tile.h"

namespace smem::gemm::hopper {

/// Clusters are persistent: each takes every `clusters`-th piece of work. Pieces are counted
/// through the tiles of a matrix, then chunks of K, then the batch; all sizes in cluster tiles.
/// Inside a matrix the order goes through strips of `strip` rows, down the columns of a strip, so
/// that pieces computed at the same time share what they read from L2.
struct Schedule {
  uint32_t rows, cols, chunks, batch, strip;
  uint32_t steps, chunk_steps;  ///< along K: of the problem, and of one chunk

  uint32_t tiles() const { return rows * cols; }
  uint32_t pieces() const { return tiles() * chunks * batch; }
};

/// A piece: cluster tile (row, col), steps [step, step + steps) along K.
struct Piece {
  int row, col, step, steps, chunk, batch;
};

inline namespace SMEM_BUILD {

__device__ __forceinline__ Piece piece_at(const Schedule& schedule, uint32_t index) {
  const uint32_t tiles = schedule.rows * schedule.cols;
  const uint32_t matrix = index / tiles, tile = index % tiles;
  const uint32_t strip_tiles = schedule.strip * schedule.cols;
  const uint32_t first = tile / strip_tiles * schedule.strip, within = tile % strip_tiles;
  const uint32_t height =
      schedule.rows - first < schedule.strip ? schedule.rows - first : schedule.strip;
  const uint32_t chunk = matrix % schedule.chunks, step = chunk * schedule.chunk_steps;
  const uint32_t left = schedule.steps - step;
  return {static_cast<int>(first + within % height),
          static_cast<int>(within / height),
          static_cast<int>(step),
          static_cast<int>(left < schedule.chunk_steps ? left : schedule.chunk_steps),
          static_cast<int>(chunk),
          static_cast<int>(matrix / schedule.chunks)};
}

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::hopper
