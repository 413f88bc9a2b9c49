// Which tile a cluster computes when.
#pragma once

#include "device/fast_divmod.h"
#include "gemm/sm90/tile_config.h"

namespace smem::gemm::sm90 {

/// Clusters are persistent: each takes every `clusters`-th piece of work. Pieces are counted
/// through the tiles of a matrix, then chunks of K, then the batch; all sizes in cluster tiles.
/// Inside a matrix the order goes through strips of `strip` rows, down the columns of a strip, so
/// that pieces computed at the same time share what they read from L2.
struct Schedule {
  uint32_t rows, cols, chunks, strip;
  uint32_t pieces;
  uint32_t steps, chunk_steps;  ///< along K: of the problem, and of one chunk
  FastDivmod by_tiles, by_strip_tiles, by_chunks;
  FastDivmod by_strip, by_last_strip;  ///< heights of strips

  Schedule() = default;
  Schedule(uint32_t rows, uint32_t cols, uint32_t chunks, uint32_t members, uint32_t strip,
           uint32_t steps, uint32_t chunk_steps)
      : rows(rows),
        cols(cols),
        chunks(chunks),
        strip(strip),
        pieces(rows * cols * chunks * members),
        steps(steps),
        chunk_steps(chunk_steps),
        by_tiles(rows * cols),
        by_strip_tiles(strip * cols),
        by_chunks(chunks),
        by_strip(strip),
        by_last_strip((rows - 1) % strip + 1) {}
};

/// A piece: cluster tile (row, col), steps [step, step + steps) along K.
struct Piece {
  int row, col, step, steps, chunk, batch;
};

inline namespace SMEM_BUILD {

__device__ __forceinline__ Piece piece_at(const Schedule& s, uint32_t index) {
  const uint32_t matrix = quotient(index, s.by_tiles);
  const uint32_t tile = index - matrix * s.by_tiles.by;
  const uint32_t strip = quotient(tile, s.by_strip_tiles);
  const uint32_t within = tile - strip * s.by_strip_tiles.by, first = strip * s.strip;
  const FastDivmod& height = s.rows - first < s.strip ? s.by_last_strip : s.by_strip;
  const uint32_t col = quotient(within, height), row = within - col * height.by;
  const uint32_t member = quotient(matrix, s.by_chunks), chunk = matrix - member * s.chunks;
  const uint32_t step = chunk * s.chunk_steps, left = s.steps - step;
  return {
      static_cast<int>(first + row), static_cast<int>(col),
      static_cast<int>(step),        static_cast<int>(left < s.chunk_steps ? left : s.chunk_steps),
      static_cast<int>(chunk),       static_cast<int>(member)};
}

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::sm90
