// What a product needs of its split operands beside hi and lo.
#pragma once

#include "gemm/fp16x3/scale.h"
#include "gemm/fp16x3/split.h"

namespace smem::gemm::fp16x3 {

using split::FALLBACK;
using split::ONE_OUTLIER;
using split::SplitOperand;

/// The results of a split per row, and the operand itself. The pointers are those of the first k
/// slice of the first matrix of the batch. As in split.h, a row is a row of A or a column of B.
struct SplitMetadata {
  const int32_t* exponent;
  const uint8_t* status;
  const int64_t* outlier_k;
  const float* outlier;
  const float* src;
  int64_t mn_stride, k_stride;
  int64_t slice_rows, slice_src_stride;  ///< from one k slice to the next: results, and src
  int64_t batch_rows, batch_src_stride;  ///< from one matrix to the next; 0 if all share one

  explicit SplitMetadata(const SplitOperand& operand)
      : exponent(operand.exponent),
        status(operand.status),
        outlier_k(operand.outlier_k),
        outlier(operand.outlier),
        src(operand.src),
        mn_stride(operand.mn_stride),
        k_stride(operand.k_stride),
        slice_rows(operand.mn),
        slice_src_stride(operand.k_slice_length * operand.k_stride),
        batch_rows(operand.batch_count > 1 ? operand.k_slices * operand.mn : 0),
        batch_src_stride(operand.batch_count > 1 ? operand.batch_stride : 0) {}
};

/// hi and lo of an operand: rows `pitch` bytes apart, k slice after k slice.
struct HiLoRows {
  const half* data;
  uint32_t pitch;

  explicit HiLoRows(const SplitOperand& operand)
      : data(static_cast<const half*>(operand.hi_lo)),
        pitch(static_cast<uint32_t>(operand.row_pitch() * int64_t{sizeof(half)})) {}
};

inline namespace SMEM_BUILD {

/// Moves the pointers to a k slice of a matrix of the batch.
__device__ __forceinline__ SplitMetadata metadata_at(SplitMetadata metadata, int64_t batch,
                                                     int64_t k_slice = 0) {
  const int64_t first = batch * metadata.batch_rows + k_slice * metadata.slice_rows;
  metadata.exponent += first;
  metadata.status += first;
  metadata.outlier_k += first;
  metadata.outlier += first;
  metadata.src += batch * metadata.batch_src_stride + k_slice * metadata.slice_src_stride;
  return metadata;
}

/// Whether the sum of two such exponents is that of a normal power of two.
__device__ __forceinline__ bool is_small_exponent(int exponent) {
  return -63 <= exponent && exponent <= 63;
}

/// x * 2^exponent in two steps, because 2^exponent itself may be outside float32's range.
__device__ __forceinline__ float scale_by_exponent(float x, int exponent) {
  exponent = min(max(exponent, -252), 254);
  const int half = exponent >> 1;
  return x * split::power_of_two(half) * split::power_of_two(exponent - half);
}

/// Returns `accum` plus the products that hi and lo lack if the row or the column is ONE_OUTLIER:
/// the row's outlier times its element of B, and the column's outlier times its element of A. If
/// both outliers have the same k, these are one product, which is added once.
template <typename Acc>
__device__ __forceinline__ Acc add_outlier_products(const SplitMetadata& a, int64_t row,
                                                    const SplitMetadata& b, int64_t col,
                                                    Acc accum) {
  const bool row_has_outlier = a.status[row] == ONE_OUTLIER;
  if (row_has_outlier) {
    const float b_element = b.src[col * b.mn_stride + a.outlier_k[row] * b.k_stride];
    accum = fma(Acc{a.outlier[row]}, Acc{b_element}, accum);
  }
  if (b.status[col] == ONE_OUTLIER && !(row_has_outlier && a.outlier_k[row] == b.outlier_k[col])) {
    const float a_element = a.src[row * a.mn_stride + b.outlier_k[col] * a.k_stride];
    accum = fma(Acc{a_element}, Acc{b.outlier[col]}, accum);
  }
  return accum;
}

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::fp16x3
