// What every kernel of the ladder shares: where its block stands, and what it does with its sums.
#pragma once

#include "device/number.h"
#include "device/tile.h"
#include "device/vector.h"
#include "gemm/ladder.h"

namespace smem::gemm {
inline namespace SMEM_BUILD {

/// z to activation(z), by the formulas of torch.nn.functional.
template <typename Acc>
__device__ __forceinline__ Acc activate(Activation activation, Acc z) {
  switch (activation) {
    case Activation::relu:
      return z <= Acc(0) ? Acc(0) : z;  // a NaN stays one
    case Activation::gelu:
      return Acc(0.5) * z * (Acc(1) + std::erf(z * Acc(0.70710678118654752440)));
    case Activation::gelu_tanh: {
      constexpr Acc SQRT_2_OVER_PI = Acc(0.79788456080286535588);
      const Acc inner = SQRT_2_OVER_PI * (z + Acc(0.044715) * z * z * z);
      return Acc(0.5) * z * (Acc(1) + std::tanh(inner));
    }
    case Activation::silu:
      return z / (Acc(1) + std::exp(-z));
    default:
      return z;
  }
}

/// Turns sums over K into elements of out.
template <typename T>
struct Epilogue {
  using Acc = Accumulator<T>;

  Matrix<T> out;
  Matrix<const T> c;
  const T* bias;
  int64_t bias_stride;
  Acc alpha, beta;
  Activation activation;

  __device__ __forceinline__ T element(int64_t row, int64_t col, Acc sum) const {
    // Written out as fma so that no kernel's compiler contracts it differently from another's.
    Acc z = alpha * sum;
    if (c.data) z = std::fma(beta, to_accumulator(c(row, col)), z);
    if (bias) z += to_accumulator(bias[col * bias_stride]);
    return from_accumulator<T>(activate(activation, z));
  }

  __device__ __forceinline__ void store(int64_t row, int64_t col, Acc sum) const {
    if (out.contains(row, col)) out(row, col) = element(row, col, sum);
  }

  /// `sums` are W neighbours in a row, from `col` on; one wide store where out's layout allows.
  template <int W>
  __device__ __forceinline__ void store(int64_t row, int64_t col, const Acc (&sums)[W]) const {
    if (rows_are_vectors<W>(out) && row < out.rows && col + W <= out.cols && col % W == 0) {
      Vector<T, W> values;
#pragma unroll
      for (int i = 0; i < W; ++i) values.lane[i] = element(row, col + i, sums[i]);
      store_vector<W>(&out(row, col), values);
    } else {
#pragma unroll
      for (int i = 0; i < W; ++i) store(row, col + i, sums[i]);
    }
  }
};

/// One block's share of the problem: a member of the batch and the corner of a tile of out.
template <typename T>
struct Block {
  Matrix<const T> A, B;
  Epilogue<T> epilogue;
  int64_t row0, col0;

  /// Blocks count along N first, then along M, then through the batch.
  __device__ __forceinline__ Block(const Problem& problem, int tile_m, int tile_n) {
    using Acc = Accumulator<T>;
    const auto tiles_m = static_cast<unsigned>((problem.M + tile_m - 1) / tile_m);
    const auto tiles_n = static_cast<unsigned>((problem.N + tile_n - 1) / tile_n);
    const unsigned tile = blockIdx.x % (tiles_m * tiles_n);
    row0 = int64_t{tile / tiles_n} * tile_m;
    col0 = int64_t{tile % tiles_n} * tile_n;

    const auto batch = offsets_at(problem.batch, blockIdx.x / (tiles_m * tiles_n));
    const auto view = [&](const Operand& operand, int64_t rows, int64_t cols, Tensor tensor) {
      const T* data = static_cast<const T*>(operand.data);
      return Matrix<const T>{data ? data + batch.of[tensor] : nullptr, rows, cols,
                             operand.row_stride, operand.col_stride};
    };
    A = view(problem.a, problem.M, problem.K, gemm::A);
    B = view(problem.b, problem.K, problem.N, gemm::B);
    const auto out = view(problem.out, problem.M, problem.N, gemm::OUT);
    epilogue = {{const_cast<T*>(out.data), out.rows, out.cols, out.row_stride, out.col_stride},
                view(problem.c, problem.M, problem.N, gemm::C),
                static_cast<const T*>(problem.bias),
                problem.bias_stride,
                static_cast<Acc>(problem.alpha),
                static_cast<Acc>(problem.beta),
                problem.activation};
  }
};

/// The launch that covers out with tiles, `threads` to a tile.
inline Geometry cover(const Problem& problem, int tile_m, int tile_n, dim3 threads,
                      size_t dynamic_shared_bytes = 0) {
  return {ceil_div(problem.M, tile_m) * ceil_div(problem.N, tile_n) * problem.batch.count(),
          threads, dynamic_shared_bytes};
}

/// A table row from a type that gives, for an element type T, `kernel<T>()` and
/// `geometry<T>(problem)`.
template <typename Rung>
constexpr Kernel make_kernel(const char* name, const char* summary,
                             const char* requires_ = "any shape, any strides",
                             int64_t (*largest_k)(DType, size_t) = nullptr) {
  return {name,
          summary,
          requires_,
          [](const Problem& problem, const Device& device) {
            with_float_type(problem.dtype, [&](auto tag) {
              using T = typename decltype(tag)::type;
              launch(Rung::NAME, Rung::template kernel<T>(), Rung::template geometry<T>(problem),
                     device, problem);
            });
          },
          [](DType dtype) -> const void* {
            return with_float_type(dtype, [](auto tag) {
              using T = typename decltype(tag)::type;
              return reinterpret_cast<const void*>(Rung::template kernel<T>());
            });
          },
          largest_k};
}

}  // namespace SMEM_BUILD
}  // namespace smem::gemm
