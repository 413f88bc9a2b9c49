// The producer of skinny_m_kernel.h for a B whose split is kept (split_problem.h): one thread loads
// hi and lo of B's columns by TMA. They have as many bytes as its float32 elements, and the
// instructions of the split, which limit the other kernels for few rows, are gone.
//
//   load warp of B   | wait empty[s] | TMA B -> stage s, full[s] | wait empty[s+1] | ...
//
// hi and lo are those of the final scales, so there is no speculation: no factors, nothing to
// compute again. split_producer.h makes the same numbers, so the results have the same bits.
//
// In shared memory a k block of a tile's columns is a box: 128 bytes per column, 32 hi and 32 lo,
// whose 16-byte vectors TMA permutes (its 128-byte swizzle), so that ldmatrix has no bank conflicts
// without COLUMN_BYTES' padding.
#pragma once

#include "gemm/fp16x3/b_layout.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {

/// The BLayout of a B that is split already. With split-K or without.
struct HiLoLayout {
  static constexpr bool IS_MN_MAJOR = false, SPLIT_K = true;
};

/// What SplitProducer has as constants, for COLUMN_GROUPS groups of columns.
template <int COLUMN_GROUPS>
struct HiLoProducer {
  static constexpr bool SPLITS = false;
  static constexpr int THREADS = 32;   ///< one of them loads
  static constexpr int ARRIVALS = 1;   ///< on `full`, per stage
  static constexpr int RAW_BYTES = 0;  ///< shared memory beside the stages
  static constexpr int MAX_THREADS_PER_SM = 2048;
  static constexpr int TILE_N = COLUMN_GROUPS * GROUP_COLS;
  /// From one column to the next in a stage, and from one k block to the next.
  static constexpr int COLUMN_PITCH = K_BLOCK_BYTES, K_BLOCK_PITCH = TILE_N * K_BLOCK_BYTES;
  static constexpr int STAGE_BYTES = STAGE_K_BLOCKS * K_BLOCK_PITCH;
};

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
