// The parameters of an mma kernel.
#pragma once

#include "device/major.h"
#include "gemm/epilogue_params.h"
#include "gemm/tile_scheduler.h"

namespace smem::gemm::sm80::inline SMEM_BUILD {

/// An operand X(mn, k): A, or B transposed. Rows (K-major) or columns (MN-major) begin at multiples
/// of 16 bytes, if the tile needs it, and are `pitch` bytes apart.
template <typename T>
struct LoadedOperand {
  const T* data;
  int64_t batch_stride;  ///< in elements
  uint32_t pitch;
  Major major;  ///< read by tiles of LoadMode::ldg; other kernels are compiled for it

  /// The address of X(mn, k) in a matrix of the batch.
  template <bool K_MAJOR>
  __device__ __forceinline__ const T* at(int64_t mn, int64_t k, int64_t batch) const {
    const int64_t stride = pitch / sizeof(T);
    return data + batch * batch_stride + (K_MAJOR ? mn * stride + k : k * stride + mn);
  }
};

template <typename T>
struct MmaParams {
  LoadedOperand<T> a, b;
  int M, N, K;
  TileScheduler scheduler;
  float* partials;  ///< batch x split-K slices x M x partial_pitch; null: the kernel writes out
  int64_t partial_pitch;
  Epilogue<T> epilogue;  ///< for the first matrix of the batch
  BatchStrides strides;
};

}  // namespace smem::gemm::sm80::inline SMEM_BUILD
