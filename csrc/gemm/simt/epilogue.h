// The epilogue of the simt kernel: from accumulators in shared memory, where each thread has put
// its own, to rows of out.
#pragma once

#include "gemm/block_tile.h"
#include "gemm/simt/thread_map.h"

namespace smem::gemm::simt::inline SMEM_BUILD {

/// Calls visit(row, col, vec) for the accumulators in the first `rows` rows and `cols` columns of
/// the tile. Neighbouring threads get neighbouring vectors of a row, whichever thread computed
/// them.
template <typename T, int TILE, int UNROLL = 1, typename Slots, typename Visit>
__device__ __forceinline__ void for_each_vector(const Slots& slots, int rows, int cols,
                                                const Visit& visit) {
  using Map = ThreadMap<T, TILE>;
  constexpr int W = Map::ACCUM_VEC, VECS_PER_ROW = Map::COLS / W;
  __syncthreads();
  const auto thread = static_cast<int>(threadIdx.x);
  if constexpr (Map::THREADS % VECS_PER_ROW == 0) {  // a thread stays in its column
    constexpr int ROW_STEP = Map::THREADS / VECS_PER_ROW;
    const int col = thread % VECS_PER_ROW * W;
    if (cols < Map::COLS && col >= cols) return;
#pragma unroll UNROLL
    for (int row = thread / VECS_PER_ROW; row < rows; row += ROW_STEP) {
      visit(row, col, load_vector<W>(slots.at(Map::accum_slot(row, col), 0)));
    }
  } else {
#pragma unroll 1
    for (int i = thread; i < rows * VECS_PER_ROW; i += Map::THREADS) {
      const int row = i / VECS_PER_ROW, col = i % VECS_PER_ROW * W;
      if (col < cols) visit(row, col, load_vector<W>(slots.at(Map::accum_slot(row, col), 0)));
    }
  }
}

/// Calls visit(row, col, accum) for single elements, one warp per row, or through all rows if they
/// are shorter than a warp. Neighbouring lanes have neighbouring elements, which suits rows of out
/// that begin at any alignment.
template <typename T, int TILE, typename Slots, typename Visit>
__device__ __forceinline__ void for_each_element(const Slots& slots, int rows, int cols,
                                                 const Visit& visit) {
  using Map = ThreadMap<T, TILE>;
  const int lane = threadIdx.x % 32;
  const auto visit_at = [&](int row, int col) {
    const int slot_of_row = Map::accum_slot(row, 0);
    const T accum = slots(slot_of_row + Map::accum_slot(0, col), col % Map::ACCUM_VEC);
    visit(row, col, to_accumulator(accum));
  };
  __syncthreads();
  if constexpr (Map::COLS < 32) {
    int row = static_cast<int>(threadIdx.x) / cols, col = static_cast<int>(threadIdx.x) % cols;
    const int row_step = Map::THREADS / cols, col_step = Map::THREADS % cols;
#pragma unroll 2
    while (row < rows) {
      visit_at(row, col);
      row += row_step;
      col += col_step;
      if (col >= cols) {
        col -= cols;
        ++row;
      }
    }
  } else {
#pragma unroll 2
    for (int row = threadIdx.x / 32; row < rows; row += Map::THREADS / 32) {
#pragma unroll
      for (int first = 0; first < Map::COLS; first += 32) {
        const int col = first + lane;
        if (col >= cols) continue;
        visit_at(row, col);
      }
    }
  }
}

/// Stores alpha * accum to rows of out that are whole aligned vectors.
template <typename T, int TILE, typename Slots>
__device__ __forceinline__ void store_vectors(const BlockTile<T>& block, const Slots& slots,
                                              int rows, int cols, Accumulator<T> alpha) {
  constexpr int W = ThreadMap<T, TILE>::ACCUM_VEC;
  for_each_vector<T, TILE, 4>(slots, rows, cols, [&](int row, int col, const auto& vec) {
    Vector<T, W> values{};
#pragma unroll
    for (int i = 0; i < W; ++i) {
      values.lane[i] = from_accumulator<T>(rounded_product(alpha, to_accumulator(vec.lane[i])));
    }
    store_global_vector<W>(block.epilogue.out.at(block.row0 + row, block.col0 + col), values);
  });
}

/// Stores the tile to out. The most common epilogue, alpha * accum, has its own loop: with a small
/// K the kernel's time is mostly this code.
template <typename T, int TILE, typename Slots>
__device__ __forceinline__ void store_tile(const BlockTile<T>& block, const Slots& slots,
                                           int rows) {
  using Map = ThreadMap<T, TILE>;
  constexpr int W = Map::ACCUM_VEC;
  auto epilogue = block.epilogue;
  opaque(epilogue.alpha);
  opaque(epilogue.beta);
  const bool only_scales = !epilogue.c.data && !epilogue.bias && !epilogue.pre.data &&
                           epilogue.activation == Activation::none &&
                           rows_are_vectors<W>(epilogue.out) &&
                           block.col0 + Map::COLS <= epilogue.out.cols;
  if (only_scales) {
    store_vectors<T, TILE>(block, slots, rows, Map::COLS, epilogue.alpha);
  } else {
    for_each_vector<T, TILE>(slots, rows, Map::COLS, [&](int row, int col, const auto& vec) {
      Accumulator<T> values[W];
#pragma unroll
      for (int i = 0; i < W; ++i) values[i] = to_accumulator(vec.lane[i]);
      epilogue.store(block.row0 + row, block.col0 + col, values);
    });
  }
}

/// The same as store_tile, but also fast for rows that begin or end at any alignment. The largest
/// tile does not use it with the multistage loader: compared with its many products the gain is
/// small, and this nvcc makes its main loop 2% slower then.
template <typename T, int TILE, typename Slots>
__device__ __forceinline__ void store_unaligned_tile(const BlockTile<T>& block, const Slots& slots,
                                                     int rows) {
  using Map = ThreadMap<T, TILE>;
  constexpr int W = Map::ACCUM_VEC;
  const auto& epilogue = block.epilogue;
  const Matrix<T>& out = epilogue.out;
  const auto cols = static_cast<int>(lesser(out.cols - block.col0, int64_t{Map::COLS}));
  const bool only_scales = !epilogue.c.data && !epilogue.bias && !epilogue.pre.data &&
                           epilogue.activation == Activation::none && out.col_stride == 1;
  if (!only_scales) return store_tile<T, TILE>(block, slots, rows);
  auto alpha = epilogue.alpha;
  opaque(alpha);
  if (W > 1 && rows_are_vectors<W>(out) && cols % W == 0) {
    store_vectors<T, TILE>(block, slots, rows, cols, alpha);
  } else {
    for_each_element<T, TILE>(slots, rows, cols, [&](int row, int col, Accumulator<T> accum) {
      const auto z = rounded_product(alpha, accum);
      out(block.row0 + row, block.col0 + col) = from_accumulator<T>(z);
    });
  }
}

}  // namespace smem::gemm::simt::inline SMEM_BUILD
