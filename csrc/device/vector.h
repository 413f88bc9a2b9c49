// Accesses of several elements at once: one 16-byte instruction instead of four of 4 bytes.
#pragma once

#include <bit>
#include <cstdint>

#include "device/tile.h"

namespace smem {
inline namespace SMEM_BUILD {

template <typename T, int N>
struct alignas(N * sizeof(T)) SMEM_MAY_ALIAS Vector {
  T lane[N];
};

/// Elements in 16 bytes, the widest access a thread can make.
template <typename T>
constexpr int VECTOR_WIDTH = 16 / sizeof(T);

template <int N, typename T>
__device__ __forceinline__ Vector<T, N> load_vector(const T* from, Site site = Site::here()) {
  return load(reinterpret_cast<const Vector<T, N>*>(from), site);
}

/// N elements as the registers that a load fills: nvcc takes a vector of small elements apart where
/// it is loaded on a condition, and a kernel of 16 bytes a load then moves bytes about.
template <typename T, int N>
struct Loaded {
  using Word = std::conditional_t<N * sizeof(T) % 4 == 0, uint32_t, T>;

  Vector<Word, N * sizeof(T) / sizeof(Word)> words;

  __device__ __forceinline__ Vector<T, N> elements() const {
    return std::bit_cast<Vector<T, N>>(words);
  }
};

template <int N, typename T>
__device__ __forceinline__ Loaded<T, N> load_words(const T* from, Site site = Site::here()) {
  using Words = decltype(Loaded<T, N>::words);
  return {load(reinterpret_cast<const Words*>(from), site)};
}

/// The first `inside` of N elements; zeros for the others, which are not read.
template <int N, typename T>
__device__ __forceinline__ Vector<T, N> load_vector(const T* from, int inside,
                                                    Site site = Site::here()) {
  if (inside >= N) return load_vector<N>(from, site);
  Vector<T, N> values;
#pragma unroll
  for (int i = 0; i < N; ++i) values.lane[i] = i < inside ? load(from + i, site) : T(0.0f);
  return values;
}

template <int N, typename T>
__device__ __forceinline__ void store_vector(T* to, const Vector<T, N>& value,
                                             Site site = Site::here()) {
  store(reinterpret_cast<Vector<T, N>*>(to), value, site);
}

/// To global memory. Left to itself, nvcc takes a wide store apart where the elements are also
/// stored one by one on another path.
template <int N, typename T>
__device__ __forceinline__ void store_global_vector(T* to, const Vector<T, N>& value,
                                                    Site site = Site::here()) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(value) == 16) {
    __stwb(reinterpret_cast<uint4*>(to), reinterpret_cast<const uint4&>(value));
    return;
  } else if constexpr (sizeof(value) == 8) {
    __stwb(reinterpret_cast<uint2*>(to), reinterpret_cast<const uint2&>(value));
    return;
  }
#endif
  store_vector<N>(to, value, site);
}

template <int N, typename T>
__device__ __forceinline__ bool is_aligned(const T* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % (N * sizeof(T)) == 0;
}

/// Whether every run of N elements along a row, starting at a column that N divides, can be read
/// by one N-element access.
template <int N, typename T>
__device__ __forceinline__ bool rows_are_vectors(const Matrix<T>& matrix) {
  return matrix.col_stride == 1 && matrix.row_stride % N == 0 && is_aligned<N>(matrix.data);
}

/// W neighbours in a row of `matrix`; zeros outside.
template <int W, typename T>
__device__ __forceinline__ Vector<T, W> row_run(const Matrix<const T>& matrix, int64_t row,
                                                int64_t col, bool wide, Site site = Site::here()) {
  if (wide && row < matrix.rows && col + W <= matrix.cols) {
    return load_vector<W>(matrix.at(row, col, site), site);
  }
  Vector<T, W> run;
#pragma unroll
  for (int i = 0; i < W; ++i) run.lane[i] = matrix.at_or_zero(row, col + i, site);
  return run;
}

/// Writes W neighbours in a row of `matrix`; nothing outside.
template <int W, typename T>
__device__ __forceinline__ void store_row_run(const Matrix<T>& matrix, int64_t row, int64_t col,
                                              const Vector<T, W>& run, bool wide,
                                              Site site = Site::here()) {
  if (wide && row < matrix.rows && col + W <= matrix.cols) {
    return store_global_vector<W>(matrix.at(row, col, site), run, site);
  }
#pragma unroll
  for (int i = 0; i < W; ++i) {
    if (matrix.contains(row, col + i)) store(matrix.at(row, col + i, site), run.lane[i], site);
  }
}

}  // namespace SMEM_BUILD
}  // namespace smem
