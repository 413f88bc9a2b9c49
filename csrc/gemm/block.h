// What every kernel of the ladder shares: where its block stands, and what it does with its sums.
#pragma once

#include "device/symbol.h"
#include "device/tile.h"
#include "device/vector.h"
#include "gemm/activation.h"
#include "gemm/accumulation_order.h"
#include "gemm/ladder.h"

namespace smem::gemm {
inline namespace SMEM_BUILD {

/// Turns sums over K into elements of out.
template <typename T>
struct Epilogue {
  using Acc = Accumulator<T>;

  Matrix<T> out;      ///< its elements are Unrounded<T> where out_unrounded
  Matrix<T> pre;      ///< what goes into the activation, unless data is null
  Matrix<const T> c;  ///< its elements are Unrounded<T> where c_unrounded
  const T* bias;
  int64_t bias_stride;
  Acc alpha, beta;
  Activation activation;
  bool out_unrounded, c_unrounded;

  /// What the activation is applied to.
  __device__ __forceinline__ Acc preactivation(int64_t row, int64_t col, Acc sum) const {
    // Written out so that no kernel's compiler contracts it differently from another's.
    Acc z = rounded_product(alpha, sum);
    if (c.data) z = fma(beta, element_of_c(row, col), z);
    if (bias) z += to_accumulator(load(bias + col * bias_stride));
    return z;
  }

  /// The element of out, before it is rounded to T of two bytes.
  __device__ __forceinline__ Acc element(int64_t row, int64_t col, Acc sum) const {
    return activate_roughly(activation, preactivation(row, col, sum));
  }

  __device__ __forceinline__ void store(int64_t row, int64_t col, Acc sum) const {
    if (!out.contains(row, col)) return;
    const Acc z = preactivation(row, col, sum), y = activated(z);
    if (pre.data) pre(row, col) = from_accumulator<T>(z);
    if (out_unrounded) {
      unrounded(out)(row, col) = from_accumulator<Unrounded<T>>(y);
    } else {
      out(row, col) = from_accumulator<T>(y);
    }
  }

  /// `sums` are W neighbours in a row, from `col` on; one wide store where the layout allows.
  template <int W>
  __device__ __forceinline__ void store(int64_t row, int64_t col, const Acc (&sums)[W]) const {
    if (row < out.rows && col + W <= out.cols && col % W == 0) {
      Acc z[W], y[W];
#pragma unroll
      for (int i = 0; i < W; ++i) {
        z[i] = preactivation(row, col + i, sums[i]);
        y[i] = activated(z[i]);
      }
      if (pre.data) store_run(pre, row, col, z);
      if (out_unrounded) {
        store_run(unrounded(out), row, col, y);
      } else {
        store_run(out, row, col, y);
      }
    } else {
#pragma unroll
      for (int i = 0; i < W; ++i) store(row, col + i, sums[i]);
    }
  }

 private:
  __device__ __forceinline__ Acc activated(Acc z) const {
    if constexpr (!std::is_same_v<T, Unrounded<T>>) {
      if (!out_unrounded) return activate_roughly(activation, z);
    }
    return activate(activation, z);
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
  __device__ __forceinline__ static void store_run(const Matrix<U>& to, int64_t row, int64_t col,
                                                   const Acc (&values)[W],
                                                   Site site = Site::here()) {
    constexpr int RUN = W < VECTOR_WIDTH<U> ? W : VECTOR_WIDTH<U>;
#pragma unroll
    for (int first = 0; first < W; first += RUN) {
      Vector<U, RUN> run;
#pragma unroll
      for (int i = 0; i < RUN; ++i) run.lane[i] = from_accumulator<U>(values[first + i]);
      store_row_run(to, row, col + first, run, rows_are_vectors<RUN>(to), site);
    }
  }
};

/// The sums of a thread that computes ROWS x COLS elements of C.
template <typename Acc, int ROWS = 1, int COLS = 1>
struct ChunkedSums {
  Acc sum[ROWS][COLS] = {}, chunks[ROWS][COLS] = {}, superchunks[ROWS][COLS] = {};

  __device__ __forceinline__ void add_product(Acc a, Acc b, int i = 0, int j = 0) {
    sum[i][j] = fma(a, b, sum[i][j]);
  }
  __device__ __forceinline__ void end_chunk() { move(sum, chunks); }
  __device__ __forceinline__ void end_superchunk() { move(chunks, superchunks); }
  __device__ __forceinline__ Acc value(int i = 0, int j = 0) const {
    return superchunks[i][j] + (chunks[i][j] + sum[i][j]);
  }

 private:
  __device__ __forceinline__ static void move(Acc (&from)[ROWS][COLS], Acc (&to)[ROWS][COLS]) {
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
#pragma unroll
      for (int j = 0; j < COLS; ++j) {
        to[i][j] += from[i][j];
        from[i][j] = 0;
      }
    }
  }
};

/// Calls step(k) for k = 0, DEPTH, 2 * DEPTH ... below K, and tells `sums` where chunks end.
template <int DEPTH, typename Sums, typename Step>
__device__ __forceinline__ void for_each_step(int64_t K, Sums& sums, const Step& step) {
  static_assert(SHORTEST_CHUNK % DEPTH == 0, "chunks end where a step ends");
  const int64_t chunk = chunk_length(K);
  for (int64_t k = 0; k < K;) {
    const int64_t end = K - k < chunk ? K : k + chunk;
    for (; k < end; k += DEPTH) step(k);
    if (k % chunk == 0) {
      sums.end_chunk();
      if (k % (CHUNKS_A_SUPERCHUNK * chunk) == 0) sums.end_superchunk();
    }
  }
}

/// One block's share of the problem: a member of the batch and the corner of a tile of out.
template <typename T>
struct Block {
  Matrix<const T> A, B;
  Epilogue<T> epilogue;
  int64_t row0, col0;

  /// Tile `index`; tiles count along N first, then along M, then through the batch.
  __device__ __forceinline__ Block(const Problem& problem, int tile_m, int tile_n,
                                   unsigned index = blockIdx.x) {
    using Acc = Accumulator<T>;
    const auto tiles_m = static_cast<unsigned>((problem.M + tile_m - 1) / tile_m);
    const auto tiles_n = static_cast<unsigned>((problem.N + tile_n - 1) / tile_n);
    const unsigned tile = index % (tiles_m * tiles_n);
    row0 = int64_t{tile / tiles_n} * tile_m;
    col0 = int64_t{tile % tiles_n} * tile_n;

    const auto batch = offsets_at(problem.batch, index / (tiles_m * tiles_n));
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
    epilogue = {writable(view(problem.out, problem.M, problem.N, gemm::OUT, out_unrounded)),
                writable(view(pre, problem.M, problem.N, gemm::OUT)),
                view(problem.c, problem.M, problem.N, gemm::C, c_unrounded),
                static_cast<const T*>(problem.bias),
                problem.bias_stride,
                static_cast<Acc>(problem.alpha),
                static_cast<Acc>(problem.beta),
                problem.activation,
                out_unrounded,
                c_unrounded};
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
          [](DType dtype) -> const char* {
            return with_float_type(dtype, [](auto tag) {
              using T = typename decltype(tag)::type;
              return symbol_of<Rung::template kernel<T>()>();
            });
          },
          largest_k};
}

}  // namespace SMEM_BUILD
}  // namespace smem::gemm
