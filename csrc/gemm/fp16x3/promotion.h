// The order in which products of hi and lo are added. All kernels that multiply split operands keep
// it, so an element of out has the same bits from each of them.
//
//   k_block_accum   += hi·hi             tensor cores, over one K_BLOCK; then added to accum
//   accum           += k_block_accum     CUDA cores, rounding
//   total           += accum             "promotion", by TwoSum; accum keeps the rounding error
//   cross_accum     += hi·lo + lo·hi     tensor cores, over all of K
//
// Promotion is staggered over groups of columns: after every PROMOTION_INTERVAL k blocks one group
// is promoted, and the next group after the next interval. So each group is promoted every
// PROMOTION_GROUPS * PROMOTION_INTERVAL * 32 = 512 elements of K.
//
// Any change here changes the bits of the results, the bounds in docs/accuracy.md and the model in
// bench/fp16x3_model.py.
#pragma once

#include "gemm/fp16x3/split.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {

/// Promoting all columns in every eighth k block cost 9% of the speed at 4096^3, because shared
/// memory, where gemm.cu keeps the totals, is the limit.
constexpr int PROMOTION_GROUPS = 8, PROMOTION_INTERVAL = 2;
/// The factor of cross_accum: lo is stored times 2^LO_SHIFT.
constexpr float CROSS_FACTOR = 1.0f / (1 << split::LO_SHIFT);

/// The group of an element of out. It depends on the column alone: the bits of an element must not
/// depend on its row's position in a tile, nor on the width of the tile.
__device__ __forceinline__ constexpr int promotion_group(int col) {
  return col / 8 % (PROMOTION_GROUPS / 2) * 2 + col % 2;
}

/// Adds accum to total and leaves the exact rounding error in accum (TwoSum).
__device__ __forceinline__ void promote(float& total, float& accum) {
  const float before = total, added = accum;
  total = before + added;
  const float part = total - before;
  accum = (before - (total - part)) + (added - part);
}

/// promote() where total still is zero: nothing is rounded.
__device__ __forceinline__ void promote_first(float& total, float& accum) {
  total = 0.0f + accum;  // -0 becomes 0
  accum = 0;
}

/// The value of an element before it is multiplied by the powers of two of its row and column.
__device__ __forceinline__ float combine(float total, float accum, float cross_accum) {
  return total + fmaf(cross_accum, CROSS_FACTOR, accum);
}

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
