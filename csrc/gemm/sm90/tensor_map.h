// Describes a matrix in global memory to TMA.
#pragma once

#include <cuda.h>

#include "device/dtype.h"

namespace smem::gemm::sm90 {

/// `x` is the contiguous dimension; strides of the others in elements, multiples of 16 bytes.
struct TensorShape {
  DType dtype;
  const void* data;  ///< aligned to 16 bytes
  int64_t x, y, z;
  int64_t y_stride, z_stride;
  bool as_tf32 = false;  ///< floats arrive rounded
};

/// A map whose boxes are box_x by box_y; rows of 128 bytes are swizzled. Shorter ones are where
/// they are to lie 128 bytes `apart`, else they follow each other as they are.
CUtensorMap make_tensor_map(const TensorShape& shape, int box_x, int box_y, bool apart = false);

}  // namespace smem::gemm::sm90
