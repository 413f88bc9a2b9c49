// Vectorized accesses: one instruction of up to 16 bytes for several elements.
#pragma once

#include <bit>
#include <cstdint>

#include "device/tile.h"

namespace smem::inline SMEM_BUILD {

template <typename T>
__device__ __forceinline__ constexpr T lesser(T a, T b) {
  return b < a ? b : a;
}

template <typename T, int N>
struct alignas(N * sizeof(T)) SMEM_MAY_ALIAS Vector {
  T lane[N];
};

/// The number of elements in 16 bytes, the widest access of a thread.
template <typename T>
constexpr int VECTOR_WIDTH = 16 / sizeof(T);

template <int N, typename T>
__device__ __forceinline__ Vector<T, N> load_vector(const T* from) {
  return *reinterpret_cast<const Vector<T, N>*>(from);
}

/// N elements as the 32-bit registers that a load fills. If a vector of small elements is loaded on
/// a condition, nvcc splits it into its elements and adds instructions that move bytes; it does not
/// split registers.
template <typename T, int N>
struct Loaded {
  using Word = std::conditional_t<N * sizeof(T) % 4 == 0, uint32_t, T>;

  Vector<Word, N * sizeof(T) / sizeof(Word)> words;

  __device__ __forceinline__ Vector<T, N> elements() const {
    return std::bit_cast<Vector<T, N>>(words);
  }
};

template <int N, typename T>
__device__ __forceinline__ Loaded<T, N> load_words(const T* from) {
  using Words = decltype(Loaded<T, N>::words);
  return {*reinterpret_cast<const Words*>(from)};
}

/// Loads the first `num_valid` of N elements. The others are zeros and are not read.
template <int N, typename T>
__device__ __forceinline__ Vector<T, N> load_vector(const T* from, int num_valid) {
  if (num_valid >= N) return load_vector<N>(from);
  Vector<T, N> values;
#pragma unroll
  for (int i = 0; i < N; ++i) values.lane[i] = i < num_valid ? from[i] : T(0.0f);
  return values;
}

template <int N, typename T>
__device__ __forceinline__ void store_vector(T* to, const Vector<T, N>& value) {
  *reinterpret_cast<Vector<T, N>*>(to) = value;
}

/// Stores to global memory by one instruction (PTX st.global.wb). nvcc would otherwise split a wide
/// store if another path of the kernel stores the elements one by one.
template <int N, typename T>
__device__ __forceinline__ void store_global_vector(T* to, const Vector<T, N>& value) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(value) == 16) {
    __stwb(reinterpret_cast<uint4*>(to), reinterpret_cast<const uint4&>(value));
    return;
  } else if constexpr (sizeof(value) == 8) {
    __stwb(reinterpret_cast<uint2*>(to), reinterpret_cast<const uint2&>(value));
    return;
  }
#endif
  store_vector<N>(to, value);
}

template <int N, typename T>
__device__ __forceinline__ bool is_aligned(const T* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % (N * sizeof(T)) == 0;
}

/// Whether N contiguous elements of any row, from a column that is a multiple of N, can be accessed
/// as one aligned vector.
template <int N, typename T>
__device__ __forceinline__ bool rows_are_vectors(const Matrix<T>& matrix) {
  return matrix.col_stride == 1 && matrix.row_stride % N == 0 && is_aligned<N>(matrix.data);
}

/// Loads N elements that are `stride` apart, the first `num_valid` of them; the others are zeros.
/// `wide`: the stride is 1, and the elements are aligned as one vector.
template <int N, typename T>
__device__ __forceinline__ Vector<T, N> load_vector(const T* from, int64_t stride,
                                                    int64_t num_valid, bool wide) {
  if (wide && num_valid >= N) return load_vector<N>(from);
  Vector<T, N> values;
#pragma unroll
  for (int i = 0; i < N; ++i) values.lane[i] = i < num_valid ? from[i * stride] : T(0.0f);
  return values;
}

/// Stores W contiguous elements of a row, except those outside the matrix.
template <int W, typename T>
__device__ __forceinline__ void store_row_run(const Matrix<T>& matrix, int64_t row, int64_t col,
                                              const Vector<T, W>& run, bool wide) {
  if (wide && row < matrix.rows && col + W <= matrix.cols) {
    return store_global_vector<W>(matrix.at(row, col), run);
  }
#pragma unroll
  for (int i = 0; i < W; ++i) {
    if (matrix.contains(row, col + i)) matrix(row, col + i) = run.lane[i];
  }
}

}  // namespace smem::inline SMEM_BUILD
