// Views of a tile in shared memory and of a matrix in global memory. On the GPU `operator()` is a
// plain load or store; the traced build checks and counts it (device/access.h).
#pragma once

#include <cstdint>

#include "device/access.h"

namespace smem {
inline namespace SMEM_BUILD {

/// ROWS x PITCH elements in shared memory. Each row begins (PITCH * sizeof(T) / 4) mod 32 banks
/// after the row before; columns above those in use are padding. A trivial type, as `__shared__`
/// requires.
template <typename T, int ROWS, int PITCH>
struct alignas(16) Tile {
  T data[ROWS * PITCH];

  __device__ __forceinline__ Ref<T> operator()(int row, int col, Site site = Site::here()) {
    return element(at(row, col, site), site);
  }
  __device__ __forceinline__ Ref<const T> operator()(int row, int col,
                                                     Site site = Site::here()) const {
    return element(at(row, col, site), site);
  }

  /// The address of an element, for accesses to several elements at once.
  __device__ __forceinline__ T* at(int row, int col, Site site = Site::here()) {
    return data + index(row, col, site);
  }
  __device__ __forceinline__ const T* at(int row, int col, Site site = Site::here()) const {
    return data + index(row, col, site);
  }

 private:
  __device__ __forceinline__ int index(int row, int col, Site site) const {
    note_shared(data, sizeof(data), sizeof(T));
    expect_inside(row, ROWS, col, PITCH, site);
    return row * PITCH + col;
  }
};

/// A matrix in dynamic shared memory, whose size is known only at launch.
template <typename T>
struct Panel {
  T* data;
  int rows, pitch;

  __device__ __forceinline__ Ref<T> operator()(int row, int col, Site site = Site::here()) const {
    expect_inside(row, rows, col, pitch, site);
    return element(data + (row * pitch + col), site);
  }
};

/// An iterator over a row or a column of a matrix in global memory.
template <typename T>
struct Walk {
  T* at;
  int64_t step;

  __device__ __forceinline__ Ref<T> next(Site site = Site::here()) {
    T* current = at;
    at += step;
    return element(current, site);
  }
};

/// A rows x cols matrix in global memory, with any strides (in elements).
template <typename T>
struct Matrix {
  T* data;
  int64_t rows, cols, row_stride, col_stride;

  __device__ __forceinline__ Ref<T> operator()(int64_t row, int64_t col,
                                               Site site = Site::here()) const {
    return element(at(row, col, site), site);
  }
  /// The address of an element, for accesses to several elements at once.
  __device__ __forceinline__ T* at(int64_t row, int64_t col, Site site = Site::here()) const {
    expect_inside(row, rows, col, cols, site);
    return data + row * row_stride + col * col_stride;
  }
  __device__ __forceinline__ bool contains(int64_t row, int64_t col) const {
    return row < rows && col < cols;
  }
  __device__ __forceinline__ std::remove_const_t<T> at_or_zero(int64_t row, int64_t col,
                                                               Site site = Site::here()) const {
    return contains(row, col) ? load(at(row, col, site), site) : std::remove_const_t<T>(0.0f);
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

/// The block's dynamic shared memory; its size is a launch parameter.
template <typename T>
__device__ __forceinline__ T* dynamic_shared() {
#ifdef __CUDACC__
  extern __shared__ __align__(16) unsigned char dynamic_shared_bytes[];
  return reinterpret_cast<T*>(dynamic_shared_bytes);
#else
  const auto [begin, bytes] = cpu_emulator::dynamic_shared();
  note_shared(begin, bytes, sizeof(T));
  return static_cast<T*>(begin);
#endif
}

}  // namespace SMEM_BUILD
}  // namespace smem
