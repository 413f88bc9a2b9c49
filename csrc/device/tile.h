// Views of a tile in shared memory and of a matrix in global memory. `operator()` is a plain load
// or store.
#pragma once

#include <cstdint>

#include "device/numeric_types.h"

#ifndef __CUDACC__
#include "cpu_emulator/launch.h"
#endif

namespace smem::inline SMEM_BUILD {

/// ROWS x PITCH elements in shared memory. Each row begins (PITCH * sizeof(T) / 4) mod 32 banks
/// after the row before; columns above those in use are padding. A trivial type, as `__shared__`
/// requires.
template <typename T, int ROWS, int PITCH>
struct alignas(16) Tile {
  T data[ROWS * PITCH];

  __device__ __forceinline__ T& operator()(int row, int col) { return *at(row, col); }
  __device__ __forceinline__ const T& operator()(int row, int col) const { return *at(row, col); }

  /// The address of an element, for accesses to several elements at once.
  __device__ __forceinline__ T* at(int row, int col) { return data + (row * PITCH + col); }
  __device__ __forceinline__ const T* at(int row, int col) const {
    return data + (row * PITCH + col);
  }
};

/// A rows x cols matrix in global memory, with any strides (in elements).
template <typename T>
struct Matrix {
  T* data;
  int64_t rows, cols, row_stride, col_stride;

  __device__ __forceinline__ T& operator()(int64_t row, int64_t col) const { return *at(row, col); }
  /// The address of an element, for accesses to several elements at once.
  __device__ __forceinline__ T* at(int64_t row, int64_t col) const {
    return data + row * row_stride + col * col_stride;
  }
  __device__ __forceinline__ bool contains(int64_t row, int64_t col) const {
    return row < rows && col < cols;
  }
  __device__ __forceinline__ std::remove_const_t<T> at_or_zero(int64_t row, int64_t col) const {
    return contains(row, col) ? *at(row, col) : std::remove_const_t<T>(0.0f);
  }
  __device__ __forceinline__ Matrix transposed() const {
    return {data, cols, rows, col_stride, row_stride};
  }
};

/// The block's dynamic shared memory; its size is a launch parameter.
template <typename T>
__device__ __forceinline__ T* dynamic_shared() {
#ifdef __CUDACC__
  extern __shared__ __align__(16) unsigned char dynamic_shared_bytes[];
  return reinterpret_cast<T*>(dynamic_shared_bytes);
#else
  return static_cast<T*>(cpu_emulator::dynamic_shared());
#endif
}

}  // namespace smem::inline SMEM_BUILD
