// A thread block's part of the problem: its matrices of the batch and its tile of out.
#pragma once

#include "gemm/epilogue.h"
#include "gemm/gemm.h"

namespace smem::gemm::inline SMEM_BUILD {

/// Views of A, B and out for one matrix of the batch, and the coordinate of one tile of out.
template <typename T>
struct BlockTile {
  Matrix<const T> A, B;
  Epilogue<T> epilogue;
  int64_t row0, col0;  ///< the tile's first row and column of out

  /// Tile `index`: tiles are numbered along N first, then along M, then through the batch.
  __device__ __forceinline__ BlockTile(const Problem& problem, int tile_m, int tile_n,
                                       unsigned index = blockIdx.x) {
    const auto tiles_m = static_cast<unsigned>((problem.M + tile_m - 1) / tile_m);
    const auto tiles_n = static_cast<unsigned>((problem.N + tile_n - 1) / tile_n);
    const unsigned tile = index % (tiles_m * tiles_n);
    row0 = int64_t{tile / tiles_n} * tile_m;
    col0 = int64_t{tile % tiles_n} * tile_n;
    set_views(problem, index / (tiles_m * tiles_n));
  }

  /// The tile from (row0, col0) on of matrix `matrix` of the batch.
  __device__ __forceinline__ BlockTile(const Problem& problem, int64_t row0, int64_t col0,
                                       unsigned matrix)
      : row0(row0), col0(col0) {
    set_views(problem, matrix);
  }

 private:
  __device__ __forceinline__ void set_views(const Problem& problem, unsigned matrix) {
    using Acc = Accumulator<T>;
    const auto batch = offsets_at(problem.batch, matrix);
    const auto view = [&](const Operand& operand, int64_t rows, int64_t cols, Tensor tensor,
                          bool unrounded = false) {
      const T* data = static_cast<const T*>(operand.data);
      constexpr int64_t WIDTH = sizeof(Unrounded<T>) / sizeof(T);
      if (data) data += batch.of[tensor] * (unrounded ? WIDTH : 1);
      return Matrix<const T>{data, rows, cols, operand.row_stride, operand.col_stride};
    };
    const auto writable = [](const Matrix<const T>& matrix) {
      return Matrix<T>{const_cast<T*>(matrix.data), matrix.rows, matrix.cols, matrix.row_stride,
                       matrix.col_stride};
    };
    constexpr bool ROUNDS = !std::is_same_v<T, Unrounded<T>>;
    const bool out_unrounded = ROUNDS && problem.out_dtype == DType::f32;
    const bool c_unrounded = ROUNDS && problem.c_dtype == DType::f32;
    const Operand pre{problem.pre, problem.out.row_stride, problem.out.col_stride};
    A = view(problem.a, problem.M, problem.K, gemm::A);
    B = view(problem.b, problem.K, problem.N, gemm::B);
    epilogue = {
        .out = writable(view(problem.out, problem.M, problem.N, gemm::OUT, out_unrounded)),
        .pre = writable(view(pre, problem.M, problem.N, gemm::OUT)),
        .c = view(problem.c, problem.M, problem.N, gemm::C, c_unrounded),
        .bias = static_cast<const T*>(problem.bias),
        .bias_stride = problem.bias_stride,
        .alpha = static_cast<Acc>(problem.alpha),
        .beta = static_cast<Acc>(problem.beta),
        .activation = problem.activation,
        .out_unrounded = out_unrounded,
        .c_unrounded = c_unrounded,
    };
  }
};

}  // namespace smem::gemm::inline SMEM_BUILD
