// Thin views: a tile in shared memory and a matrix in global memory. On the GPU `operator()` is a
// plain load or store; host_run can give it another meaning without a change in any kernel.
#pragma once

#include <cstdint>

#include "device/number.h"

namespace smem {
inline namespace SMEM_BUILD {

/// ROWS x PITCH elements in shared memory. A PITCH above the used columns is padding: it moves
/// each row by (PITCH * sizeof(T) / 4) mod 32 banks. Trivial, so that `__shared__` may hold it.
template <typename T, int ROWS, int PITCH>
struct alignas(16) Tile {
  T data[ROWS * PITCH];

  __device__ __forceinline__ T& operator()(int row, int col) { return data[row * PITCH + col]; }
  __device__ __forceinline__ const T& operator()(int row, int col) const {
    return data[row * PITCH + col];
  }
};

/// A rows x cols matrix in dynamic shared memory, whose size is known at launch only.
template <typename T>
struct Panel {
  T* data;
  int pitch;

  __device__ __forceinline__ T& operator()(int row, int col) const {
    return data[row * pitch + col];
  }
};

/// A line of a matrix in global memory, read element after element.
template <typename T>
struct Walk {
  T* at;
  int64_t step;

  __device__ __forceinline__ T& next() {
    T& element = *at;
    at += step;
    return element;
  }
};

/// A rows x cols matrix in global memory, with any strides (in elements).
template <typename T>
struct Matrix {
  T* data;
  int64_t rows, cols, row_stride, col_stride;

  __device__ __forceinline__ T& operator()(int64_t row, int64_t col) const {
    return data[row * row_stride + col * col_stride];
  }
  __device__ __forceinline__ bool contains(int64_t row, int64_t col) const {
    return row < rows && col < cols;
  }
  __device__ __forceinline__ std::remove_const_t<T> at_or_zero(int64_t row, int64_t col) const {
    return contains(row, col) ? (*this)(row, col) : std::remove_const_t<T>(0.0f);
  }
  __device__ __forceinline__ Walk<T> along_row(int64_t row) const {
    return {data + row * row_stride, col_stride};
  }
  __device__ __forceinline__ Walk<T> down_column(int64_t col) const {
    return {data + col * col_stride, row_stride};
  }
  __device__ __forceinline__ Matrix transposed() const {
    return {data, cols, rows, col_stride, row_stride};
  }
};

/// The block's dynamic shared memory, whose size the launch gave.
template <typename T>
__device__ __forceinline__ T* dynamic_shared() {
#ifdef __CUDACC__
  extern __shared__ __align__(16) unsigned char dynamic_shared_bytes[];
  return reinterpret_cast<T*>(dynamic_shared_bytes);
#else
  return static_cast<T*>(host_run::dynamic_shared_bytes());
#endif
}

}  // namespace SMEM_BUILD
}  // namespace smem
