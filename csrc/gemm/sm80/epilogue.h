// The epilogue of a work tile: from a warp's accumulators to out, or to the partials of a split-K
// slice.
//
// out = alpha A B + bias with contiguous rows is rounded in registers, staged as elements and
// stored by 16 bytes, or by elements where its rows are no whole aligned vectors. Everything else
// is staged as float, and epilogue_any.h stores it.
#pragma once

#include "gemm/sm80/epilogue_any.h"
#include "gemm/warp_mma.h"

namespace smem::gemm::sm80::inline SMEM_BUILD {

/// Whether store_plain stores this out.
template <typename T>
__device__ __forceinline__ bool is_plain(const Epilogue<T>& epilogue) {
  return !epilogue.c.data && !epilogue.pre.data && epilogue.activation == Activation::none &&
         !(sizeof(T) == 2 && epilogue.out_unrounded) && epilogue.out.col_stride == 1;
}

/// Whether rows of out can be stored by vectors of 16 bytes.
template <typename T>
__device__ __forceinline__ bool has_vectors(const Matrix<T>& out) {
  constexpr int VEC = VECTOR_WIDTH<T>;
  return rows_are_vectors<VEC>(out) && out.cols % VEC == 0;
}

/// Multiplies all accumulators by alpha and adds the bias. `col`: this lane's first column in out.
template <typename T, typename Mma>
__device__ __forceinline__ void scale_and_add_bias(Mma& mma, const Epilogue<T>& epilogue,
                                                   int64_t col) {
  float bias[2 * Mma::COUNT_N][2];
#pragma unroll
  for (int j = 0; j < 2 * Mma::COUNT_N; ++j) {
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const int64_t at = min(col + 8 * j + k, epilogue.out.cols - 1);
      bias[j][k] =
          epilogue.bias ? number_of(to_accumulator(epilogue.bias[at * epilogue.bias_stride])) : 0;
    }
  }
#pragma unroll
  for (int i = 0; i < Mma::COUNT_M; ++i) {
#pragma unroll
    for (int j = 0; j < 2 * Mma::COUNT_N; ++j) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        float& value = mma.accum[i][j][k];
        value = rounded_product(number_of(epilogue.alpha), value);
        if (epilogue.bias) value += bias[j][k % 2];
      }
    }
  }
}

/// Writes the accumulators of 16 * FRAGMENTS rows, from `first` on, to the warp's staging buffer as
/// elements, so that neighbouring lanes can store neighbouring vectors.
template <typename Layout, typename Mma>
__device__ __forceinline__ void stage_rows(typename Layout::Element* staging, const Mma& mma,
                                           int first) {
  using U = typename Layout::Element;
  static_assert(8 % Layout::SWIZZLE_PERIOD == 0, "all fragments have the same swizzle");
  const int lane = threadIdx.x % 32, col = lane % 4 * 2;
  const int lane_offset = Layout::offset(lane / 4, col / Layout::VEC) + col % Layout::VEC;
  __syncwarp();
#pragma unroll
  for (int row = 0; row < Layout::ROWS; row += 8) {
#pragma unroll
    for (int j = 0; j < 2 * Mma::COUNT_N; ++j) {
      const float* const accum = &mma.accum[first + row / 16][j][row % 16 / 4];
      const Vector<U, 2> pair{{from_accumulator<U>(accum[0]), from_accumulator<U>(accum[1])}};
      // The swizzle and 8 columns share no bits with the rest of the offset.
      store_vector<2>(staging + (lane_offset ^ 8 * j) + row * Layout::COLS, pair);
    }
  }
  __syncwarp();
}

/// Stores the warp's part of out, which begins at (row0, col0), by vectors of 16 bytes.
template <int FRAGMENTS, typename T, typename Mma>
__device__ __forceinline__ void store_plain(const Mma& mma, const Matrix<T>& out, int64_t row0,
                                            int64_t col0, T* staging) {
  using Layout = SmemLayout<T, false, Mma::WARP_N, 16 * FRAGMENTS>;
  constexpr int VEC = Layout::VEC, VECS_PER_ROW = Layout::VECS_PER_ROW;
  constexpr int ROWS_PER_PASS = 32 / VECS_PER_ROW;
  static_assert(32 % VECS_PER_ROW == 0, "a lane has the same columns of every row that it stores");
  const int lane = threadIdx.x % 32, vec = lane % VECS_PER_ROW, lane_row = lane / VECS_PER_ROW;
  const int64_t col = col0 + vec * VEC, rows = col < out.cols ? out.rows - row0 - lane_row : 0;
  const int rows_left = static_cast<int>(min(rows, int64_t{16 * Mma::COUNT_M}));
  T* to = out.at(row0 + lane_row, col);
#pragma unroll
  for (int first = 0; first < Mma::COUNT_M; first += FRAGMENTS) {
    stage_rows<Layout>(staging, mma, first);
#pragma unroll
    for (int row = 0; row < Layout::ROWS; row += ROWS_PER_PASS) {
      const auto values = load_vector<VEC>(staging + Layout::offset(row + lane_row, vec));
      if (16 * first + row < rows_left) store_global_vector<VEC>(to, values);
      to += ROWS_PER_PASS * out.row_stride;
    }
  }
}

/// The same by elements: a warp stores up to 32 neighbouring ones at once.
template <int FRAGMENTS, typename T, typename Mma>
__device__ __forceinline__ void store_plain_elements(const Mma& mma, const Matrix<T>& out,
                                                     int64_t row0, int64_t col0, T* staging) {
  using Layout = SmemLayout<T, false, Mma::WARP_N, 16 * FRAGMENTS>;
  constexpr int COLS = Mma::WARP_N < 32 ? Mma::WARP_N : 32, ROWS_PER_PASS = 32 / COLS;
  const int lane = threadIdx.x % 32, lane_col = lane % COLS, lane_row = lane / COLS;
  const int rows = static_cast<int>(min(out.rows - row0 - lane_row, int64_t{16 * Mma::COUNT_M}));
  const int cols = static_cast<int>(min(out.cols - col0 - lane_col, int64_t{Mma::WARP_N}));
  T* to = out.at(row0 + lane_row, col0 + lane_col);
#pragma unroll
  for (int first = 0; first < Mma::COUNT_M; first += FRAGMENTS) {
    stage_rows<Layout>(staging, mma, first);
#pragma unroll 4
    for (int row = 0; row < Layout::ROWS; row += ROWS_PER_PASS) {
#pragma unroll
      for (int j = 0; j < Mma::WARP_N; j += COLS) {
        const int col = j + lane_col;
        const T value =
            staging[Layout::offset(row + lane_row, col / Layout::VEC) + col % Layout::VEC];
        if (16 * first + row < rows && j < cols) to[j] = value;
      }
      to += ROWS_PER_PASS * out.row_stride;
    }
  }
}

/// The same of at most 8 columns: as many neighbouring lanes store a row as it needs.
template <int FRAGMENTS, typename T, typename Mma>
__device__ __forceinline__ void store_narrow(const Mma& mma, const Matrix<T>& out, int64_t row0,
                                             int64_t col0, T* staging) {
  using Layout = SmemLayout<T, false, Mma::WARP_N, 16 * FRAGMENTS>;
  const int cols = static_cast<int>(out.cols - col0);
  const int log2_lanes = (cols > 1) + (cols > 2) + (cols > 4), rows_per_pass = 32 >> log2_lanes;
  const int lane = threadIdx.x % 32, lane_row = lane >> log2_lanes;
  const int col = lane - (lane_row << log2_lanes);
  if (cols <= 0) return;
#pragma unroll
  for (int first = 0; first < Mma::COUNT_M; first += FRAGMENTS) {
    stage_rows<Layout>(staging, mma, first);
    const int64_t first_row = row0 + 16 * first;
    const int rows = static_cast<int>(min(out.rows - first_row, int64_t{Layout::ROWS}));
#pragma unroll 1
    for (int row = lane_row; row < rows && col < cols; row += rows_per_pass) {
      *out.at(first_row + row, col0 + col) =
          staging[Layout::offset(row, col / Layout::VEC) + col % Layout::VEC];
    }
  }
}

/// Stores accumulators unchanged to the M x N matrix `partials`, whose rows are `pitch` apart;
/// pitch is even. Each store of a warp writes eight rows of 32 bytes, which are whole sectors.
template <typename Mma>
__device__ __forceinline__ void store_partials(const Mma& mma, float* partials, int64_t pitch,
                                               int rows, int cols) {
  const int lane = threadIdx.x % 32, first_col = mma.n + lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < Mma::COUNT_M; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = mma.m + 16 * i + 8 * half + lane / 4;
      if (row >= rows) continue;
      float* const to = partials + row * pitch + first_col;
#pragma unroll
      for (int j = 0; j < 2 * Mma::COUNT_N; ++j) {
        if (first_col + 8 * j >= cols) continue;
        const Vector<float, 2> pair{{mma.accum[i][j][2 * half], mma.accum[i][j][2 * half + 1]}};
        store_vector<2>(to + 8 * j, pair);
      }
    }
  }
}

/// Stores a block's work tile. `shared`: memory for the warps' staging buffers.
template <typename T, typename Shape, typename Mma>
__device__ __forceinline__ void store_work_tile(Mma& mma, const MmaParams<T>& params,
                                                const WorkTileInfo& work, unsigned char* shared) {
  using Acc = Accumulator<T>;
  constexpr int FRAGMENTS = Shape::template STAGED_FRAGMENTS<T>;
  constexpr int ACC_FRAGMENTS = Shape::template STAGED_FRAGMENTS<Acc>;
  using AccLayout = SmemLayout<Acc, false, Mma::WARP_N, 16 * ACC_FRAGMENTS>;
  const int row0 = work.row * Shape::TILE_M, col0 = work.col * Shape::TILE_N;
  if (params.partials) {
    const int64_t slice = int64_t{work.batch} * params.scheduler.split_k_slices + work.k_slice;
    const int64_t pitch = params.partial_pitch;
    store_partials(mma, params.partials + (slice * params.M + row0) * pitch + col0, pitch,
                   min(params.M - row0, Shape::TILE_M), min(params.N - col0, Shape::TILE_N));
    return;
  }
  const int64_t first_row = row0 + mma.m, first_col = col0 + mma.n;
  const int warp = static_cast<int>(threadIdx.x / 32);
  if (is_plain(params.epilogue)) {
    if (number_of(params.epilogue.alpha) != 1 || params.epilogue.bias) {
      scale_and_add_bias(mma, params.epilogue, first_col + threadIdx.x % 4 * 2);
    }
    const auto out = epilogue_at_batch(params.epilogue, params.strides, work.batch).out;
    auto* const staging = reinterpret_cast<T*>(shared) + warp * (16 * FRAGMENTS * Mma::WARP_N);
    if constexpr (Mma::WARP_N == 16) {
      if (out.cols - first_col <= 8) {
        return store_narrow<FRAGMENTS>(mma, out, first_row, first_col, staging);
      }
    }
    if (!has_vectors(out)) {
      return store_plain_elements<FRAGMENTS>(mma, out, first_row, first_col, staging);
    }
    return store_plain<FRAGMENTS>(mma, out, first_row, first_col, staging);
  }
  auto* const staging = reinterpret_cast<Acc*>(shared) + warp * AccLayout::ELEMENTS;
#pragma unroll
  for (int first = 0; first < Mma::COUNT_M; first += ACC_FRAGMENTS) {
    stage_rows<AccLayout>(staging, mma, first);
    store_staged_rows<T, AccLayout::ROWS, Mma::WARP_N>(staging, params, work.batch,
                                                       first_row + 16 * first, first_col);
  }
}

}  // namespace smem::gemm::sm80::inline SMEM_BUILD
