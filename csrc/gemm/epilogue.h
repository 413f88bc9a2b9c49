// The epilogue that every kernel shares: out = activation(alpha * accum + beta * C + bias).
#pragma once

#include "device/tile.h"
#include "device/vector.h"
#include "gemm/activation.h"

namespace smem::gemm::inline SMEM_BUILD {

/// Makes elements of out from accumulators, and stores them.
template <typename T>
struct Epilogue {
  using Acc = Accumulator<T>;

  Matrix<T> out;      ///< its elements are Unrounded<T> where out_unrounded is set
  Matrix<T> pre;      ///< receives the pre-activation, unless data is null
  Matrix<const T> c;  ///< its elements are Unrounded<T> where c_unrounded is set
  const T* bias;
  int64_t bias_stride;
  Acc alpha, beta;
  Activation activation;
  bool out_unrounded, c_unrounded;

  /// alpha * accum + beta * C + bias: the argument of the activation.
  __device__ __forceinline__ Acc preactivation(int64_t row, int64_t col, Acc accum) const {
    // Written with explicit roundings: the compiler could contract a * b + c differently in each
    // kernel.
    Acc z = rounded_product(alpha, accum);
    if (c.data) z = fma(beta, element_of_c(row, col), z);
    if (bias) z += to_accumulator(bias[col * bias_stride]);
    return z;
  }

  /// The element of out before it is rounded to a two-byte T.
  __device__ __forceinline__ Acc element(int64_t row, int64_t col, Acc accum) const {
    return activate_approximate(activation, preactivation(row, col, accum));
  }

  __device__ __forceinline__ void store(int64_t row, int64_t col, Acc accum) const {
    if (!out.contains(row, col)) return;
    const Acc z = preactivation(row, col, accum), y = activated<false, 1>({{z}}).lane[0];
    if (pre.data) pre(row, col) = from_accumulator<T>(z);
    if (out_unrounded) {
      unrounded(out)(row, col) = from_accumulator<Unrounded<T>>(y);
    } else {
      out(row, col) = from_accumulator<T>(y);
    }
  }

  /// Stores W consecutive elements of a row, which begin at `col`: by one vector store where the
  /// layout of out allows it. CALLS: the activation is a call, for kernels that unroll their stores
  /// so often that it would be most of their code.
  template <bool CALLS = false, int W>
  __device__ __forceinline__ void store(int64_t row, int64_t col, const Acc (&accum)[W]) const {
    if (!out.contains(row, col)) return;
    Vector<Acc, W> z{};
#pragma unroll
    for (int i = 0; i < W; ++i) {
      if (col + i < out.cols) z.lane[i] = preactivation(row, col + i, accum[i]);
    }
    if (pre.data) store_vectors(pre, row, col, z);
    const Vector<Acc, W> y = activated<CALLS>(z);
    if (out_unrounded) {
      store_vectors(unrounded(out), row, col, y);
    } else {
      store_vectors(out, row, col, y);
    }
  }

 private:
  template <bool CALLS, int W>
  __device__ __forceinline__ Vector<Acc, W> activated(const Vector<Acc, W>& z) const {
    if (activation == Activation::none) return z;
    if (activation == Activation::relu) return activate_all<false>(Activation::relu, z);
    if constexpr (!std::is_same_v<T, Unrounded<T>>) {
      if (!out_unrounded) {
        return CALLS ? call_activate<true>(activation, z) : activate_all<true>(activation, z);
      }
    }
    return CALLS ? call_activate<false>(activation, z) : activate_all<false>(activation, z);
  }

  template <typename U>
  __device__ __forceinline__ static auto unrounded(const Matrix<U>& matrix) {
    using To = std::conditional_t<std::is_const_v<U>, const Unrounded<T>, Unrounded<T>>;
    return Matrix<To>{reinterpret_cast<To*>(matrix.data), matrix.rows, matrix.cols,
                      matrix.row_stride, matrix.col_stride};
  }

  __device__ __forceinline__ Acc element_of_c(int64_t row, int64_t col) const {
    return c_unrounded ? to_accumulator(unrounded(c)(row, col)) : to_accumulator(c(row, col));
  }

  template <int W, typename U>
  __device__ __forceinline__ static void store_vectors(const Matrix<U>& to, int64_t row,
                                                       int64_t col, const Vector<Acc, W>& values) {
    constexpr int VEC = W < VECTOR_WIDTH<U> ? W : VECTOR_WIDTH<U>;
#pragma unroll
    for (int first = 0; first < W; first += VEC) {
      Vector<U, VEC> vec;
#pragma unroll
      for (int i = 0; i < VEC; ++i) vec.lane[i] = from_accumulator<U>(values.lane[first + i]);
      store_row_run(to, row, col + first, vec, col % W == 0 && rows_are_vectors<VEC>(to));
    }
  }
};

}  // namespace smem::gemm::inline SMEM_BUILD
