// What `gathered` brings to shared memory: rows of a matrix, as whole vectors.
#pragma once

#include "device/cp_async.h"
#include "transpose/block.h"
#include "transpose/gather_tile.h"
#include "transpose/words.h"

namespace smem::transpose {
inline namespace SMEM_BUILD {

struct GatherProblem {
  Problem problem;
  GatherTile tile;
  Span readable;
};

/// Copies a vector; of one that is not all readable, the elements that are.
template <typename T>
__device__ __forceinline__ void copy_readable(T* to, const T* from, const Span& readable) {
  constexpr int W = VECTOR_WIDTH<T>;
  const auto* const begin = reinterpret_cast<const T*>(readable.begin);
  const auto* const end = reinterpret_cast<const T*>(readable.end);
  if (from >= begin && from + W <= end) return copy_async<W>(to, from, W);
#pragma unroll 1
  for (int e = 0; e < W; ++e) {
    if (from + e >= begin && from + e < end) store(to + e, load(from + e));
  }
}

/// Brings `width` elements from column `col0` on of the rows from `row0` on: for each row the
/// vectors that they lie in, each once. Rows outside the matrix are left out.
///
/// Neighbours in shared memory are vectors of one row, and rows that lie W apart. These begin
/// equally far past a multiple of 16 bytes, so that a warp that needs an element of each finds
/// them at a fixed step, which is odd: in different banks.
template <typename T>
__device__ __forceinline__ void load_rows(T* shared, const Matrix<const T>& in,
                                          const GatherTile& tile, const Span& readable,
                                          int64_t row0, int64_t col0, int width) {
  constexpr int W = VECTOR_WIDTH<T>;
  const int pitch = static_cast<int>(tile.pitch.by);
  const int row_step = tile.stacks.by == 1 ? 1 : W;
#pragma unroll 4
  for (int unit = threadIdx.x; unit < tile.slots * pitch; unit += GATHER_THREADS) {
    const Division slot = divide(unit, tile.pitch), stack = divide(slot.quotient, tile.stacks);
    const int64_t row = row0 + stack.rest * row_step + stack.quotient;
    if (row < 0 || row >= in.rows) continue;
    const T* const run = in.data + row * in.row_stride + col0;
    const int past = elements_past_vector(run);
    if (slot.rest * W < past + width) {
      copy_readable(shared + unit * W, run - past + slot.rest * W, readable);
    }
  }
}

/// The same where the elements of a row lie apart: each row begins at its first element.
template <typename T>
__device__ __forceinline__ void load_elements(T* shared, const Matrix<const T>& in,
                                              const GatherTile& tile, int64_t row0, int64_t col0,
                                              int width) {
  constexpr int W = VECTOR_WIDTH<T>;
  const int row_step = tile.stacks.by == 1 ? 1 : W;
  for (int i = threadIdx.x; i < tile.slots * width; i += GATHER_THREADS) {
    const int slot = i / width, e = i % width;
    const Division stack = divide(slot, tile.stacks);
    const int64_t row = row0 + stack.rest * row_step + stack.quotient;
    if (row < 0 || row >= in.rows) continue;
    store(shared + slot * static_cast<int>(tile.pitch.by) * W + e, load(in.at(row, col0 + e)));
  }
}

}  // namespace SMEM_BUILD
}  // namespace smem::transpose
