// The parameters of an SM90 kernel.
#pragma once

#include "device/tensor_map.h"
#include "gemm/epilogue_params.h"
#include "gemm/sm90/tile_config.h"
#include "gemm/tile_scheduler.h"

namespace smem::gemm::sm90::inline SMEM_BUILD {

/// How many rows of A, or columns of B, a block loads per k-tile.
struct LoadExtent {
  int size;       ///< less than the tile's where the operand has less; whole 16-byte vectors
  int step;       ///< from tile to tile: less than `size` where these compute columns twice
  int last_size;  ///< for the last tile, if the operand ends within it
  int end;        ///< M or N
};

template <typename T>
struct GemmParams {
  /// K-major: a map for whole tiles, and one for a last tile that has fewer rows. MN-major: a map
  /// for whole panels (producer.h), and one for a last panel that has fewer rows.
  CUtensorMap a[2], b[2];
  LoadExtent a_extent, b_extent;
  TileScheduler scheduler;
  int tile_n;          ///< columns from tile to tile: at most the mma_n of the configuration
  bool overlaps;       ///< tiles compute OVERLAP_COLS more, which their neighbours compute, too
  int accum_interval;  ///< k-tiles after which a new accumulator begins
  int log2_box_vecs;   ///< a box of the TMA store has 8 << log2_box_vecs columns
  StoreMode store_mode;
  bool a_batched, b_batched;
  bool transposed;       ///< rows of A are columns of out, see mainloop_tf32_rs.h
  Epilogue<T> epilogue;  ///< for the first matrix of the batch
  BatchStrides strides;
  float* partials;  ///< batch x split-K slices x M x partial_pitch
  int64_t partial_pitch;
  CUtensorMap out, pre;  ///< for TMA stores
};

}  // namespace smem::gemm::sm90::inline SMEM_BUILD
