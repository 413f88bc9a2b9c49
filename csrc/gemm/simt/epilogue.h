// A tile's sums on their way out of shared memory, where each thread has put its own.
#pragma once

#include "gemm/block.h"
#include "gemm/simt/thread_map.h"

namespace smem::gemm::simt {
inline namespace SMEM_BUILD {

/// Calls visit(row, col, group) for the groups of the tile that lie in its first `rows` rows and
/// `cols` columns: neighbouring threads have neighbouring groups of a row, whoever computed them.
template <typename T, int TILE, int UNROLL = 1, typename Slots, typename Visit>
__device__ __forceinline__ void for_each_group(const Slots& slots, int rows, int cols,
                                               const Visit& visit) {
  using On = Threads<T, TILE>;
  constexpr int W = On::GROUP_N, GROUPS = On::COLS / W, STEP = On::THREADS / GROUPS;
  __syncthreads();
  const auto thread = static_cast<int>(threadIdx.x);
  if constexpr (On::THREADS % GROUPS == 0) {  // a thread stays in its column
    const int col = thread % GROUPS * W;
    if (cols < On::COLS && col >= cols) return;
#pragma unroll UNROLL
    for (int row = thread / GROUPS; row < rows; row += STEP) {
      visit(row, col, load_vector<W>(slots.at(On::owner(row, col), 0)));
    }
  } else {
#pragma unroll 1
    for (int i = thread; i < rows * GROUPS; i += On::THREADS) {
      const int row = i / GROUPS, col = i % GROUPS * W;
      if (col < cols) visit(row, col, load_vector<W>(slots.at(On::owner(row, col), 0)));
    }
  }
}

/// Calls visit(row, col, sum) for single elements, a warp a row: for rows of out that begin
/// anywhere, as neighbouring lanes have neighbours then.
template <typename T, int TILE, typename Slots, typename Visit>
__device__ __forceinline__ void for_each_element(const Slots& slots, int rows, int cols,
                                                 const Visit& visit) {
  using On = Threads<T, TILE>;
  const int lane = threadIdx.x % 32;
  __syncthreads();
#pragma unroll 2
  for (int row = threadIdx.x / 32; row < rows; row += On::THREADS / 32) {
#pragma unroll
    for (int first = 0; first < On::COLS; first += 32) {
      const int col = first + lane;
      if (col >= cols) continue;
      const T sum = slots(On::owner(row, 0) + On::owner(0, col), col % On::GROUP_N);
      visit(row, col, to_accumulator(sum));
    }
  }
}

/// Writes alpha times the sums to rows of out that are whole vectors.
template <typename T, int TILE, typename Slots>
__device__ __forceinline__ void store_vectors(const Block<T>& block, const Slots& slots, int rows,
                                              int cols, Accumulator<T> alpha) {
  constexpr int W = Threads<T, TILE>::GROUP_N;
  for_each_group<T, TILE, 4>(slots, rows, cols, [&](int row, int col, const auto& group) {
    Vector<T, W> values{};
#pragma unroll
    for (int i = 0; i < W; ++i) {
      values.lane[i] = from_accumulator<T>(rounded_product(alpha, to_accumulator(group.lane[i])));
    }
    store_global_vector<W>(block.epilogue.out.at(block.row0 + row, block.col0 + col), values);
  });
}

/// Writes the tile's sums to out. Where nothing is added to them, as most often, a loop of its own:
/// small K is bound by what stands here.
template <typename T, int TILE, typename Slots>
__device__ __forceinline__ void store_tile(const Block<T>& block, const Slots& slots, int rows) {
  using On = Threads<T, TILE>;
  constexpr int W = On::GROUP_N;
  auto epilogue = block.epilogue;
  opaque(epilogue.alpha);
  opaque(epilogue.beta);
  const bool plain = !epilogue.c.data && !epilogue.bias && !epilogue.pre.data &&
                     epilogue.activation == Activation::none && rows_are_vectors<W>(epilogue.out) &&
                     block.col0 + On::COLS <= epilogue.out.cols;
  if (plain) {
    store_vectors<T, TILE>(block, slots, rows, On::COLS, epilogue.alpha);
  } else {
    for_each_group<T, TILE>(slots, rows, On::COLS, [&](int row, int col, const auto& group) {
      Accumulator<T> values[W];
#pragma unroll
      for (int i = 0; i < W; ++i) values[i] = to_accumulator(group.lane[i]);
      epilogue.store(block.row0 + row, block.col0 + col, values);
    });
  }
}

/// The same, also fast for rows that begin or end anywhere. Not for the largest tile, for whose
/// products it is little: with this nvcc's main loop there is 2% slower.
template <typename T, int TILE, typename Slots>
__device__ __forceinline__ void store_ragged_tile(const Block<T>& block, const Slots& slots,
                                                  int rows) {
  using On = Threads<T, TILE>;
  constexpr int W = On::GROUP_N;
  const auto& epilogue = block.epilogue;
  const Matrix<T>& out = epilogue.out;
  const auto cols = static_cast<int>(lesser(out.cols - block.col0, int64_t{On::COLS}));
  const bool plain = !epilogue.c.data && !epilogue.bias && !epilogue.pre.data &&
                     epilogue.activation == Activation::none && out.col_stride == 1;
  if (!plain) return store_tile<T, TILE>(block, slots, rows);
  auto alpha = epilogue.alpha;
  opaque(alpha);
  if (W > 1 && rows_are_vectors<W>(out) && cols % W == 0) {
    store_vectors<T, TILE>(block, slots, rows, cols, alpha);
  } else {
    for_each_element<T, TILE>(slots, rows, cols, [&](int row, int col, Accumulator<T> sum) {
      const auto z = rounded_product(alpha, sum);
      out(block.row0 + row, block.col0 + col) = from_accumulator<T>(z);
    });
  }
}

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::simt
