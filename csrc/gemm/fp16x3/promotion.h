// The order in which products of halves are added: all kernels that multiply them keep it, so that
// an element has the same bits from each.
//
// A chain of PIECE products of hi is added to a sum. Every TURN pieces it is another group's turn
// to have its sums added to totals, so each group's is every 512 of K; what rounding takes from a
// total, its sum goes on from.
#pragma once

#include "gemm/fp16x3/split.h"

namespace smem::gemm::fp16x3 {
inline namespace SMEM_BUILD {

/// Totals in every eighth piece cost 9% of the speed at 4096^3, because shared memory, where
/// gemm.cu keeps them, is the limit.
constexpr int GROUPS = 8, TURN = 2;
/// Of products of hi with lo, summed LO_SHIFT binades up.
constexpr float LO = 1.0f / (1 << split::LO_SHIFT);

/// An element's group, by its column alone: rows must not tell in which place of a tile they stand,
/// nor columns how wide it is.
__device__ __forceinline__ constexpr int group_of(int col) {
  return col / 8 % (GROUPS / 2) * 2 + col % 2;
}

/// Adds a sum to its total, exactly: the sum goes on from what rounding takes (TwoSum).
__device__ __forceinline__ void add_to_total(float& total, float& sum) {
  const float before = total, added = sum;
  total = before + added;
  const float part = total - before;
  sum = (before - (total - part)) + (added - part);
}

/// All that an element comes to, before the lines' powers of two. `small`: products of hi with lo.
__device__ __forceinline__ float value_of(float total, float sum, float small) {
  return total + fmaf(small, LO, sum);
}

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::fp16x3
